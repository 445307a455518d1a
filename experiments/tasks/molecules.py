"""`molecules`: new molecules like a few examples, as SMILES, in the style of MOSES and GuacaMol.

The examples come from the MOSES data (Polykovskiy et al. 2020) inside the package `molsets`. The constraint is a grammar of SMILES
(`smiles_grammar`); what no grammar can say, that rings close and valences hold, is a potential. Answers are scored by RDKit.

The prompt is a list, one molecule a line, and an answer is one more line, which its end stops: a small model knows well where a
line of a list ends, and hardly ever ends a turn of chat after a molecule.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from typing import ClassVar

from experiments.errors import ExperimentError
from experiments.tasks import molecules_data
from experiments.tasks.base import Answer, Instance, Task
from experiments.tasks.smiles_grammar import GRAMMAR, parts
from smc import EBNF
from smc.errors import MissingPackageError
from smc.potentials import SmilesPrefix, ValidMolecule

LONGEST = 28
"""Characters of the longest molecule shown: a small model copies long ones without ever coming to an end."""

THEMES: Mapping[str, str] = {
    "nitrile": r"C#N|N#C",
    "ester": r"C\(=O\)O[Cc]",
    "fluorine": r"F",
    "sulfonyl": r"S\(=O\)\(=O\)|O=S\(=O\)",
    "aliphatic": r"^[^a-z]+$",
    "chlorine": r"Cl",
    "azole": r"\[nH\]",
    "methoxy": r"^CO|OC\)|OC$",
    "thiophene": r"s",
    "bromine": r"Br",
}
"""What the examples of an instance have in common, as a search in a canonical SMILES of MOSES."""

DRAWS = 2  # instances of a theme
EXAMPLES = 12  # molecules shown
_POOL, _SEED = 60_000, 2020


@dataclass(frozen=True)
class MoleculesTask(Task):
    """One SMILES after twelve that share a theme.

    `potential=False` leaves RDKit's and partialsmiles' conditions out: the grammar alone is enforced, and validity is a result.
    """

    max_tokens: int = 40  # molecules of at most 28 characters take 14 to 32 of SmolLM2's tokens
    potential: bool = True  # only SMILES whose rings close and whose valences hold count; false for the grammar alone
    name: str = "molecules"
    exact: bool = False
    stops: ClassVar[tuple[str, ...]] = ("\n",)

    @property
    def revision(self) -> str:
        """The data package and the judge, which both affect scores."""
        return ", ".join(
            f"{package} {_version(package)}" for package in (molecules_data.PACKAGE, "rdkit", "partialsmiles")
        )

    def instances(self, limit: int | None = None) -> list[Instance]:
        """The first `limit` instances (20 in all): each theme, then each theme with other examples.

        Raises ExperimentError if the data package, RDKit or partialsmiles is missing.
        """
        try:
            potentials = (SmilesPrefix(), ValidMolecule()) if self.potential else ()
        except MissingPackageError as error:
            raise ExperimentError(f"The task molecules cannot run: {error}") from error
        molecules_data.molecule("C")  # is the judge there?
        return [
            Instance(
                id=f"{theme}_{draw}",
                prompt=prompt(shown),
                constraint=EBNF(GRAMMAR),
                display=f"{theme}: {', '.join(shown)}",
                reference=None,
                potentials=potentials,
            )
            for (theme, draw), shown in list(examples().items())[:limit]
        ]

    def score(self, instance: Instance, text: str) -> float:
        """The QED of the molecule, or 0 if RDKit reads none.

        Not validity, which is nearly always 1 under the potentials: then an answer is as good as its molecule is drug-like.
        """
        read = molecules_data.molecule(text)
        return 0.0 if read is None else read.qed

    def measures(self, instance: Instance, text: str) -> Mapping[str, float]:
        """valid, qed, novel (valid and not in the MOSES training set) and theme (valid and of the kind of the examples)."""
        read = molecules_data.molecule(text)
        if read is None:
            return {"valid": 0.0, "qed": 0.0, "novel": 0.0, "theme": 0.0}
        theme = instance.id.rpartition("_")[0]
        return {
            "valid": 1.0,
            "qed": read.qed,
            "novel": float(molecules_data.is_novel(read.canonical)),
            "theme": float(re.search(THEMES[theme], read.canonical) is not None),
        }

    def together(self, instance: Instance, answers: Sequence[Answer]) -> Mapping[str, float]:
        """How varied the valid answers are, 0 if there is none.

        unique: distinct molecules for each valid answer drawn. effective: the effective number of molecules, 1 / sum of p^2
        over their shares of the weight.
        """
        drawn, shares = 0, dict[str, float]()
        for answer in answers:
            if (read := molecules_data.molecule(answer.text)) is not None:
                drawn += answer.count
                shares[read.canonical] = shares.get(read.canonical, 0.0) + answer.weight
        total = math.fsum(shares.values())
        concentration = math.fsum((share / total) ** 2 for share in shares.values()) if total else 0.0
        return {
            "unique": len(shares) / drawn if drawn else 0.0,
            "effective": 1 / concentration if concentration else 0.0,
        }

    def places(self, instance: Instance, text: str) -> list[tuple[int, str]]:
        """The atoms, brackets, bonds, branches and ring labels of a SMILES."""
        return list(parts(text))


def prompt(shown: Sequence[str]) -> str:
    """A list of molecules, one a line, that goes on."""
    return "SMILES of drug-like molecules, one a line:\n" + "".join(f"{smiles}\n" for smiles in shown)


@lru_cache
def examples() -> dict[tuple[str, int], tuple[str, ...]]:
    """The examples of each instance by theme and draw, no molecule in two draws of a theme."""
    pool = [smiles for smiles in molecules_data.sample(_POOL, _SEED) if len(smiles) <= LONGEST]
    fitting = {theme: [smiles for smiles in pool if re.search(pattern, smiles)] for theme, pattern in THEMES.items()}
    return {
        (theme, draw): tuple(fitting[theme][draw * EXAMPLES : (draw + 1) * EXAMPLES])
        for draw in range(DRAWS)
        for theme in THEMES
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "(not installed)"
