"""The task of molecules: its grammar, its data and its judge."""

from __future__ import annotations

import importlib.util
import re

import pytest

from experiments.errors import ExperimentError
from experiments.tasks import molecules_data
from experiments.tasks.base import Answer
from experiments.tasks.molecules import DRAWS, EXAMPLES, LONGEST, THEMES, MoleculesTask, examples
from experiments.tasks.molecules_data import is_novel, molecule, sample
from experiments.tasks.smiles_grammar import GRAMMAR, parts
from smc import EBNF
from smc.potentials import SmilesPrefix
from smc.vocabulary import byte_vocabulary

pytestmark = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("moses", "rdkit", "partialsmiles")),
    reason="molsets, rdkit or partialsmiles is not installed",
)


def test_the_grammar_holds_the_molecules_of_the_set_and_the_potential_agrees() -> None:
    grammar, potential = EBNF(GRAMMAR).compile(byte_vocabulary()), SmilesPrefix()
    for smiles in sample(150, 1):
        assert grammar.accepts(smiles.encode())
        assert potential.holds(smiles)
        read = molecule(smiles)
        assert read is not None
        assert read.canonical == smiles  # the set is canonical, so that novelty is a search in it
    assert not any(map(is_novel, sample(20, 2)))


@pytest.mark.parametrize(
    "smiles", ["C[C@@H](O)[13CH3]", "F/C=C\\F", "[Fe+2]", "c1ccccc1%10", "C1(C)CC1", "[se]1cccc1", "N#N", "C"]
)
def test_the_grammar_is_that_of_smiles(smiles: str) -> None:
    assert EBNF(GRAMMAR).compile(byte_vocabulary()).accepts(smiles.encode())


@pytest.mark.parametrize(
    "text", ["", "C.C", "[C", "C==C", "(C)", "C()", "*", "C%01", "CH4", "C C", "[CH4:1]", "Cc1ccccc1\n", "[Xx]"]
)
def test_the_grammar_is_no_wider(text: str) -> None:
    assert not EBNF(GRAMMAR).compile(byte_vocabulary()).accepts(text.encode())


def test_instances_show_examples_of_their_theme() -> None:
    task = MoleculesTask()
    instances = task.instances()
    assert len({instance.id for instance in instances}) == len(instances) == DRAWS * len(THEMES) == 20
    assert [instance.id for instance in task.instances(2)] == [instance.id for instance in instances[:2]]
    assert len({str(instance.prompt) for instance in instances}) == 20
    for (theme, draw), shown in examples().items():
        assert len(set(shown)) == EXAMPLES
        assert all(re.search(THEMES[theme], smiles) for smiles in shown), (theme, draw)
    assert all(len(instance.potentials) == 2 for instance in instances)
    assert all(instance.potentials == () for instance in MoleculesTask(potential=False).instances(3))
    assert "molsets 0.3.1" in task.revision
    assert "rdkit" in task.revision


def test_the_prompt_is_a_list_that_an_answer_continues_by_one_line() -> None:
    task = MoleculesTask()
    grammar = EBNF(GRAMMAR).compile(byte_vocabulary())
    assert task.stops == ("\n",)
    for instance in task.instances(3):
        assert isinstance(instance.prompt, str)
        heading, *lines, open_line = instance.prompt.split("\n")
        assert (heading, open_line) == ("SMILES of drug-like molecules, one a line:", "")
        assert instance.display.endswith(": " + ", ".join(lines))
        assert all(len(line) <= LONGEST and grammar.accepts(line.encode()) for line in lines)
        assert not any(stop.encode() in line.encode() for stop in task.stops for line in lines)


def test_scores_and_measures() -> None:
    task = MoleculesTask()
    nitrile = task.instances(1)[0]
    aspirin, known = "CC(=O)Oc1ccccc1C(=O)O", sample(1, 3)[0]
    assert task.score(nitrile, aspirin) == pytest.approx(0.55, abs=0.01)  # as in Bickerton et al. 2012
    assert task.measures(nitrile, aspirin)["theme"] == 0.0
    assert task.measures(nitrile, known)["novel"] == 0.0
    odd = "N#CC(F)(Cl)C1CC1CCCCCCCCCCCCCC"
    assert task.measures(nitrile, odd) == {"valid": 1.0, "qed": task.score(nitrile, odd), "novel": 1.0, "theme": 1.0}
    for text in ("", "C1CC", "C(C)(C)(C)(C)C", "c1cccc1", "C C", "C\n", "Sure! Here is one", "é", "C1CC\0"):
        assert task.score(nitrile, text) == 0.0
        assert set(task.measures(nitrile, text).values()) == {0.0}


def test_variety_counts_molecules_and_not_spellings() -> None:
    task = MoleculesTask()
    instance = task.instances(1)[0]
    answers = [Answer("CCO", 0.25, 1), Answer("OCC", 0.25, 1), Answer("CCN", 0.25, 2), Answer("C1CC", 0.25, 4)]
    together = task.together(instance, answers)
    assert together["unique"] == 2 / 4
    assert together["effective"] == pytest.approx(1 / ((2 / 3) ** 2 + (1 / 3) ** 2))
    assert task.together(instance, []) == {"unique": 0.0, "effective": 0.0}
    assert task.together(instance, [Answer("C1CC", 1.0, 4)]) == {"unique": 0.0, "effective": 0.0}
    assert task.together(instance, [Answer("CCO", 0.0, 1)]) == {"unique": 1.0, "effective": 0.0}


def test_places() -> None:
    assert list(parts("BrC(=O)c1[nH]%12?")) == [
        (0, "atom"),
        (2, "atom"),
        (3, "branch"),
        (4, "bond"),
        (5, "atom"),
        (6, "branch"),
        (7, "atom"),
        (8, "ring"),
        (9, "bracket"),
        (13, "ring"),
        (16, "other"),
    ]


def test_missing_packages_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    molecules_data._data.cache_clear()
    with monkeypatch.context() as patched:
        patched.setattr(importlib.util, "find_spec", lambda name: None)
        with pytest.raises(ExperimentError, match=r"pip install --no-deps molsets==0\.3\.1"):
            sample(1, 0)
    molecules_data.molecule.cache_clear()

    def absent(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", absent)
    with pytest.raises(ExperimentError, match=r"smc\[chemistry\]"):
        molecule("C")
    with pytest.raises(ExperimentError, match="partialsmiles"):
        MoleculesTask().instances(1)
