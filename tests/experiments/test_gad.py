"""Problems of grammar-aligned decoding: the loader, and the judge of SyGuS answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from experiments.errors import ExperimentError
from experiments.tasks import problem_files
from experiments.tasks.gad import GadTask
from experiments.tasks.sygus import last_problem
from smc.constraints.notes import language_of
from smc.vocabulary import byte_vocabulary

GRAMMAR = 'root ::= "a" | "b" root\n'
ROW = {"id": "one", "prompt": "Say a:\n", "grammar": GRAMMAR}

PROBLEM = """An example comes first.
(set-logic LIA) (synth-fun g () Int) (constraint (= g 1)) (check-synth)
Question:
(set-logic {logic})
(synth-fun f ({parameters}) {sort} ((Start {sort})) ((Start {sort} (#x0))))
{rest}
(check-synth)
Solution:"""


def problem(sort: str, names: str, rest: str) -> Any:
    parameters = " ".join(f"({name} {sort})" for name in names)
    return last_problem(PROBLEM.format(logic="ALL", parameters=parameters, sort=sort, rest=rest))


def answer(sort: str, names: str, body: str) -> str:
    return f"(define-fun f ({' '.join(f'({name} {sort})' for name in names)}) {sort} {body})"


def test_own_problems_are_right_by_their_references() -> None:
    task = GadTask()
    instances = task.instances()
    assert [instance.id for instance in instances] == ["cat_sleeps", "initial", "masked_bits"]
    for instance in instances:
        reference = str(instance.reference)
        assert instance.constraint.compile(byte_vocabulary()).accepts(reference.encode())
        assert task.score(instance, reference) == 1.0
        assert task.measures(instance, reference)["judged"] == 1.0
        for wrong in ("", "(", reference[:-1], reference + ")", reference.replace("(", "[")):
            assert task.score(instance, wrong) == 0.0
    _, initial, bits = instances
    # another spelling of the same function is as right, and a part of the constraints is measured
    other = '(define-fun f ((name String)) String (str.++ (str.substr name 0 1) (str.at "." 0)))'
    assert task.score(initial, other) == 1.0
    zero = "(define-fun f ((x (BitVec 4)) (y (BitVec 4))) (BitVec 4) #x0)"
    assert (task.score(bits, zero), task.measures(bits, zero)["constraints"]) == (0.0, 0.5)
    assert task.revision.startswith("digest ")


@pytest.mark.parametrize(
    ("sort", "rest", "right", "wrong"),
    [
        ("(BitVec 4)", "(declare-var x (BitVec 4)) (constraint (= (bvadd (f x) x) #x0))", "(bvneg x)", "(bvnot x)"),
        ("(BitVec 4)", "(declare-var x (BitVec 4)) (constraint (bvsge (f x) x))", "#x7", "#xf"),
        ("(BitVec 4)", "(declare-var x (BitVec 4)) (constraint (bvuge (f x) x))", "#xf", "#x7"),
        ("(BitVec 4)", "(declare-var x (BitVec 4)) (constraint (= (f x) (bvudiv x #x0)))", "(bvnot #b0000)", "x"),
        ("(BitVec 4)", "(declare-var x (BitVec 4)) (constraint (= (f x) (bvashr x #x3)))", "(ite (bvslt x #x0) #xf #x0)", "(bvlshr x #x3)"),
        ("(BitVec 4)", "(define-fun top () (BitVec 4) (bvnot (bvlshr (bvnot #x0) #x1))) (declare-var x (BitVec 4)) (constraint (=> (bvuge x top) (= (f x) top)))", "#x8", "x"),
        ("Int", "(declare-var x Int) (constraint (>= (f x) x)) (constraint (>= (f x) (- x)))", "(ite (>= x 0) x (- x))", "x"),
        ("Int", "(declare-var x Int) (constraint (= (f x) (mod x 3)))", "(- x (* 3 (div x 3)))", "(- x 3)"),
        ("String", '(constraint (= (f "a-b") "b")) (constraint (= (f "cc-d") "d"))', '(str.substr x (+ (str.indexof x "-" 0) 1) (str.len x))', '(str.at x 2)'),
        ("String", '(constraint (= (f "a b a") "c b a"))', '(str.replace x "a" "c")', '(str.replace_all x "a" "c")'),
        ("String", '(constraint (= (f "7") "8")) (constraint (= (f "z") "0"))', "(str.from_int (+ (str.to_int x) 1))", '(int.to.str (str.to.int x))'),
        ("String", '(constraint (= (f "say ""hi""") "4"))', '(int.to.str (- (str.len x) 4))', '"5"'),
        ("Bool", "(declare-var x Bool) (constraint (xor (f x) x))", "(let ((y (not x))) (and y true))", "x"),
    ],
)  # fmt: skip
def test_answers_are_judged_by_what_they_compute(sort: str, rest: str, right: str, wrong: str) -> None:
    stated = problem(sort, "x", rest)
    assert all(stated.satisfied(answer(sort, "x", right)))
    assert not all(stated.satisfied(answer(sort, "x", wrong)))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "(define-fun f ((x Int)) Int x) (define-fun f ((x Int)) Int x)",
        "(define-fun g ((x Int)) Int x)",
        "(define-fun f ((x Int) (y Int)) Int x)",
        "(define-fun f ((x Bool)) Int 0)",
        "(define-fun f (x) Int x)",
        "(define-fun f ((x Int)) Int (f x))",  # calls itself
        "(define-fun f ((x Int)) Int (+ true x))",
        "(define-fun f ((x Int)) Int (unheard-of x))",
        "(define-fun f ((x Int)) Int (div x 0))",
        "(define-fun f ((x Int)) Int ())",
        '(define-fun f ((x Int)) Int "',
        "(define-fun f ((x Int)) Int " + "(- " * 3000 + "x" + ")" * 3000 + ")",
    ],
)
def test_what_is_no_answer_is_wrong_and_no_error(text: str) -> None:
    assert problem("Int", "x", "(declare-var x Int) (constraint (= (f x) x))").satisfied(text) == [False]


@pytest.mark.parametrize(
    "rest",
    [
        "",  # nothing to check
        "(declare-var s String) (constraint (= (f s) 0))",  # no trying all strings
        "(declare-var a (BitVec 12)) (declare-var b (BitVec 12)) (constraint (= a b))",  # too many values
        "(constraint (str.in_re (f 0) re.all))",  # an operation that is not known
        "(synth-fun g () Int) (constraint (= g 0))",
        "(inv-constraint f g h i)",
        "(constraint",
    ],
)
def test_problems_that_cannot_be_checked_are_not_judged(rest: str) -> None:
    assert problem("Int", "x", rest) is None


def test_a_problem_without_constraints_or_reference_is_not_judged(tmp_path: Path) -> None:
    write_lines(tmp_path / "p.jsonl", [ROW, ROW | {"id": "two", "reference": "ba"}])
    task = GadTask(source=str(tmp_path))
    one, two = task.instances()
    assert (task.score(one, "a"), task.measures(one, "a")) == (0.0, {"judged": 0.0})
    assert (task.score(two, "ba"), task.score(two, "a"), task.measures(two, "a")) == (1.0, 0.0, {"judged": 1.0})


def write_lines(path: Path, rows: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def write_parquet(path: Path, rows: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)


def test_a_hub_data_set_is_a_folder_once_it_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "abc123"
    write_parquet(folder / "data" / "SLIA-00000-of-00001.parquet", [ROW])
    write_parquet(folder / "data" / "BV4-00000-of-00001.parquet", [ROW | {"id": "two"}, ROW])
    asked = []

    def download(name: str, revision: str | None, patterns: list[str]) -> str:
        asked.append((name, revision))
        return str(folder)

    monkeypatch.setattr(problem_files, "download", download)
    task = GadTask(source="someone/GAD-dataset", split="SLIA", data_revision="main")
    assert [i.id for i in task.instances()] == ["one"]
    assert task.revision == "someone/GAD-dataset abc123"
    assert [i.id for i in GadTask(source="someone/GAD-dataset").instances()] == ["two", "one", "one#2"]  # no id twice
    assert asked == [("someone/GAD-dataset", "main"), ("someone/GAD-dataset", None)]
    with pytest.raises(ExperimentError, match=r"no file for task.split=CP.*data/BV4-00000"):
        GadTask(source="someone/GAD-dataset", split="CP").instances()


def test_a_small_limit_meets_every_table_and_not_only_its_beginning(tmp_path: Path) -> None:
    for split in ("BV4", "CP"):
        write_parquet(tmp_path / f"{split}.parquet", [ROW | {"id": f"{split}_{n}"} for n in range(8)])
    assert [i.id for i in GadTask(source=str(tmp_path)).instances(4)] == ["BV4_0", "CP_0", "BV4_4", "CP_4"]


def test_folders_of_problems(tmp_path: Path) -> None:
    for name in ("x", "y"):
        (tmp_path / "SLIA" / name).mkdir(parents=True)
        (tmp_path / "SLIA" / name / "grammar.ebnf").write_text(GRAMMAR)
        (tmp_path / "SLIA" / name / "prompt.txt").write_text(f"{name}:\n")
    task = GadTask(source=str(tmp_path), split="SLIA")
    assert [(i.id, i.prompt, i.reference) for i in task.instances()] == [("x", "x:\n", None), ("y", "y:\n", None)]
    before = task.revision
    (tmp_path / "SLIA" / "y" / "prompt.txt").write_text("changed")
    assert GadTask(source=str(tmp_path), split="SLIA", max_tokens=5).revision != before
    (tmp_path / "SLIA" / "y" / "prompt.txt").unlink()
    with pytest.raises(ExperimentError, match=r"prompt.txt cannot be read"):
        GadTask(source=str(tmp_path), max_tokens=6).instances()


def test_grammars_that_cannot_be_enforced_are_left_out_visibly(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = [
        ROW | {"id": "endless", "grammar": 'root ::= "a" root\n'},
        ROW | {"id": "unread", "grammar": 'root ::= "a"\nx ::= <token>\n'},
        ROW | {"id": "undefined", "grammar": "root ::= nowhere\n"},
    ]  # the last needs what nobody defines, whichever way it goes
    write_lines(tmp_path / "p.jsonl", [bad[0], ROW, *bad[1:]])
    assert [i.id for i in GadTask(source=str(tmp_path)).instances()] == ["one"]
    said = capsys.readouterr().err
    assert "3 of the first 4 problems are left out" in said
    assert "line 2" in said
    assert "nowhere" in said
    write_lines(tmp_path / "q" / "p.jsonl", bad)
    with pytest.raises(ExperimentError, match="No problem"):
        GadTask(source=str(tmp_path / "q")).instances()


TREES = """
root ::= "(ROOT " S ")"
S ::= "(S " NP " " VP ")" | "(S " VP C_0_2
NP ::= "(NP " T ")" | "(NP " T " " C_0_2
VP ::= "(VP " T ")" | B
B ::= "( " T " " C_0_2
T ::= "(DT the)" | "(NN dog)" | "(VB " [a-z]{2,4} ")"
"""


def test_a_grammar_that_names_an_undefined_rule_is_enforced_without_what_needs_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_lines(tmp_path / "p.jsonl", [ROW | {"grammar": TREES}, ROW | {"id": "two"}])
    tree, other = GadTask(source=str(tmp_path)).instances()
    assert capsys.readouterr().err == ""
    compiled = tree.constraint.compile(byte_vocabulary())
    assert compiled.accepts(b"(ROOT (S (NP (DT the)) (VP (VB bark))))")
    assert not compiled.accepts(b"(ROOT (S ( (DT the) )")
    [note] = language_of(tree.constraint, compiled).notes
    assert (note.effect, note.at) == ("narrower", "rules 'S', 'NP', 'B'")
    assert "rule 'C_0_2', which nobody defines" in note.what
    assert language_of(other.constraint).notes == ()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "holds no problem"),
        ("[1]\n", "Line 1 of .* is no JSON object"),
        ('{"id": "a"', "line 1 of .* cannot be read as JSON"),
        ('{"id": "a", "prompt": "p"}\n', "no text in the column grammar of row 1"),
    ],
)
def test_bad_files(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "p.jsonl").write_text(content)
    with pytest.raises(ExperimentError, match=message):
        GadTask(source=str(tmp_path)).instances()


def test_bad_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "p.parquet").write_text("no parquet")
    with pytest.raises(ExperimentError, match="cannot be read as a Parquet file"):
        GadTask(source=str(tmp_path)).instances()
    (tmp_path / "empty").mkdir()
    with pytest.raises(ExperimentError, match=r"holds no file that ends in .parquet or .jsonl or .ebnf"):
        GadTask(source=str(tmp_path / "empty")).instances()
    with pytest.raises(ExperimentError, match="neither a file or folder"):
        GadTask(source=str(tmp_path / "nowhere")).instances()
    with pytest.raises(ExperimentError, match=r"task.source, which is not given"):
        GadTask(split="CP")

    def offline(name: str, revision: str | None, patterns: list[str]) -> str:
        raise ConnectionError("no route\nto host")

    monkeypatch.setattr(problem_files, "download", offline)
    with pytest.raises(ExperimentError, match=r"some/set could not be fetched .* no route to host .* local folder"):
        GadTask(source="some/set").instances()
