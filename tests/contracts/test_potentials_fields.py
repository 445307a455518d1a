"""Potentials of a field: SQL that parses, SMILES and molecules. No prefix of what they accept may be refused."""

from __future__ import annotations

import itertools
import logging
import math
import sys

import numpy as np
import pytest

from smc.errors import MissingPackageError, OptionError
from smc.potentials import MoleculeScore, ParsesSQL, PotentialError, SmilesPrefix, TextCondition, ValidMolecule
from smc.vocabulary import Vocabulary

SQL = {
    "": [
        "SELECT 1",
        "select a, b from t where a = 'it''s )' and b < 3;",
        "SELECT ')' || \"a)\" FROM t -- a comment )",
        "SELECT (1 + (2 * 3)) /* ) */ FROM (SELECT x FROM u) AS v",
        "WITH a AS (SELECT 1 AS n) SELECT n FROM a UNION ALL SELECT 2",
        "INSERT INTO t (a, b) VALUES (1, 2), (3, 4)",
        "CREATE TABLE t (a INT PRIMARY KEY, b TEXT)",
        "UPDATE t SET a = 1 WHERE b IN (1, 2)",
        "DELETE FROM t",
        "DROP TABLE t",
        "VALUES (1), (2)",
        "(SELECT 1)",
        "SELECT COUNT(*) FROM t GROUP BY a HAVING COUNT(*) > 1 ORDER BY 1 LIMIT 5",
        "SELECT 1; -- the end )",
    ],
    "postgres": ["SELECT $$ ) $$", "SELECT $tag$ ) ' $tag$", "SELECT E'\\') ' , 1", "SELECT a::int, b[1] FROM t"],
    "bigquery": ["SELECT `a)` FROM t # )", "SELECT '''it's )'''", 'SELECT r")\\"", 1', "SELECT STRUCT(1 AS a)"],
    "mysql": [
        "SELECT 'a\\') ' FROM t",
        "SELECT `)` FROM t # )",
        "INSERT INTO t VALUES (1) ON DUPLICATE KEY UPDATE a = 2",
    ],
    "snowflake": ["SELECT 1 // )", "SELECT v:a.b::int FROM t, LATERAL FLATTEN(input => v)"],
    "duckdb": ["FROM t SELECT a", "SELECT {'a': [1, 2]}", "SELECT * EXCLUDE (a) FROM t"],
    "tsql": ["SELECT TOP 3 [a)] FROM t", "SELECT a FROM t WHERE b = N')'"],
    "sqlite": ["SELECT x'0A', ')' FROM t", "PRAGMA table_info(t)"],
}
NO_SQL = [
    "",
    " ",
    "-- nothing",
    "SELECT 1)",
    "SELECT (1",
    "SELECT 1; SELECT 2",
    "SELECT 'a",
    "SELECT a FROM",
    ";",
]


@pytest.mark.parametrize("dialect", SQL)
def test_sql_that_parses(dialect: str) -> None:
    potential = ParsesSQL(dialect)
    for text in SQL[dialect]:
        assert potential.holds(text), text
        assert all(potential.viable(text[:n]) for n in range(len(text) + 1)), text
    for text in NO_SQL:
        assert not potential.holds(text), text


def test_what_is_no_statement(caplog: pytest.LogCaptureFixture) -> None:
    """A bare expression, and what sqlglot passes on without parsing it (without its warnings)."""
    with caplog.at_level(logging.WARNING):
        for text in ("hello", "foo bar", "1 + 2", "(1)", "EXPLAIN SELECT 1", "CALL f(1)"):
            assert not ParsesSQL().holds(text), text
    assert not caplog.records
    assert not logging.getLogger("sqlglot").disabled


@pytest.mark.parametrize("dialect", SQL)
def test_no_text_with_a_bracket_too_many_parses(dialect: str) -> None:
    """Every bracket closed too early, at every place of texts without quotes and comments."""
    potential = ParsesSQL(dialect)
    plain = [text for text in SQL[""] if not set(text) & set("'\"-/|")]
    assert len(plain) > 8
    refused = 0
    for text in plain:
        for place in range(len(text) + 1):
            broken = text[:place] + ")" + text[place:]
            if not potential.viable(broken):
                refused += 1
                assert not potential.holds(broken), broken
    assert refused > 200


def test_bad_dialects_are_refused() -> None:
    with pytest.raises(OptionError, match="klingon"):
        ParsesSQL("klingon")


SMILES = [
    "C",
    "CC(=O)Oc1ccccc1C(=O)O",
    "CN1C=NC2=C1C(=O)N(C(=O)N2C)C",
    "C[C@H](N)C(=O)O",
    "O=C(O)c1cccnc1",
    "c1ccc2[nH]ccc2c1",
    "[O-][N+](=O)c1ccccc1",
    "CS(=O)(=O)N",
    "C1CCCCC1",
    "FC(F)(F)c1ccccc1",
    "C#N",
    "[Na+].[Cl-]",
    "N[C@@H](Cc1ccccc1)C(=O)O",
    "C/C=C/C",
    "F\\C=C\\F",
    "c1ccsc1",
    "O=S(=O)(O)O",
    "OP(=O)(O)O",
    "C%10CCCCC%10",
    "[2H]O[2H]",
    "c1cc2ccccc2cc1",
    "c1ccc(cc1)-c1ccccc1",
    "CC1(C)SC2C(NC(=O)Cc3ccccc3)C(=O)N2C1C(=O)O",
    "[13CH4]",
    "Cn1cnc2c1c(=O)n(C)c(=O)n2C",
    "BrCCl",
    "O=C1NC(=O)c2ccccc12",
    "CCN(CC)CC",
    "[NH4+].[OH-]",
    "c1ccc2c(c1)[nH]c1ccccc12",
]
NO_SMILES = ["", "C(", "C1CC", "c1cccc1", "C(C)(C)(C)(C)C", "[Xx]", "C name", " C", "C\n", "C%1", "[", "\udcff"]


def test_smiles_and_their_prefixes() -> None:
    potential, molecule = SmilesPrefix(), ValidMolecule()
    for text in SMILES:
        assert potential.holds(text), text
        assert molecule.holds(text), text
        assert all(potential.viable(text[:n]) for n in range(len(text) + 1)), text
    for text in NO_SMILES:
        assert not potential.holds(text), text
        assert not molecule.holds(text), text
    assert not potential.viable("C(C)(C)(C)(C)C")
    assert not potential.viable("Cx")


@pytest.mark.parametrize("alphabet", ["CN()1=", "C%12[]", "[NH+].c", "c1noH[]"])
def test_no_prefix_of_any_short_smiles_is_refused(alphabet: str) -> None:
    """Every string of up to five characters."""
    potential = SmilesPrefix()
    accepted = 0
    for n in range(1, 6):
        for letters in itertools.product(alphabet, repeat=n):
            text = "".join(letters)
            if potential.holds(text):
                accepted += 1
                assert all(potential.viable(text[:i]) for i in range(n)), text
    assert accepted > 5


def test_scores_of_molecules(capfd: pytest.CaptureFixture[str]) -> None:
    """The logarithm of QED, and nothing of RDKit's messages."""
    from rdkit.Chem import QED

    potential = MoleculeScore(lambda molecule: math.log(QED.qed(molecule)), log_bound=0.0)
    assert potential.judge("CCO") == pytest.approx(math.log(0.4068), abs=1e-3)
    assert potential.judge("C(") == -math.inf
    assert potential.judge("c1cccc1") == -math.inf
    assert potential.log_bound == 0
    assert not potential.boolean
    captured = capfd.readouterr()
    assert not captured.out + captured.err
    with pytest.raises(PotentialError, match="ZeroDivisionError"):
        MoleculeScore(lambda molecule: 1 / 0).answers("complete", ["C"], "error")


@pytest.mark.parametrize(
    ("potential", "package"),
    [(ParsesSQL, "sqlglot"), (SmilesPrefix, "partialsmiles"), (ValidMolecule, "rdkit.Chem")],
)
def test_a_missing_package_is_named(
    potential: type[TextCondition], package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingPackageError, match="pip install 'smc"):
        potential()


def test_they_are_conditions() -> None:
    vocabulary = Vocabulary((b"C", b"=", b"<eos>"), (2,))
    for potential in (SmilesPrefix(), ValidMolecule(), ParsesSQL()):
        assert potential.boolean
        assert potential.log_bound == 0
    rows = SmilesPrefix().start(vocabulary).advance(np.array([0, 0]), np.array([0, 1]))
    assert rows.log_prefix.tolist() == [0.0, -math.inf]
    assert rows.log_complete(np.array([0])).tolist() == [0.0]
