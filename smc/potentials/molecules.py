"""Conditions on SMILES, the line notation of molecules, and log values of the molecules that they describe."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from smc.errors import MissingPackageError, function_of
from smc.potentials.base import checked_log_bound
from smc.potentials.text import TextBased, TextCondition


def _package(name: str, user: str) -> ModuleType:
    """Import an optional package."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        package = name.partition(".")[0]
        raise MissingPackageError(f"{user} needs the package {package}: pip install 'smc[chemistry]'.") from error


@dataclass(frozen=True)
class SmilesPrefix(TextCondition):
    """phi is 1 for SMILES with sound syntax, usual valences and aromatic rings that can be kekulised (partialsmiles).

    Prefixes are refused as soon as one of the three is beyond repair, so that mass dies early. Its valences are
    stricter than RDKit's (``[Fe]`` is refused).

    Raises:
        MissingPackageError: partialsmiles is not installed.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        _package("partialsmiles", "SmilesPrefix")

    def holds(self, text: str) -> bool:
        return _parses(text, partial=False)

    def viable(self, text: str) -> bool:
        return _parses(text, partial=True)


def _parses(text: str, partial: bool) -> bool:
    partialsmiles = _package("partialsmiles", "SmilesPrefix")
    try:
        partialsmiles.ParseSmiles(text, partial=partial)
    except partialsmiles.Error:
        return False
    except (
        IndexError
    ):  # its answer to text that ends inside "%10" or a bracket: no molecule, but perhaps the beginning of one
        return partial
    return True


@dataclass(frozen=True)
class ValidMolecule(TextCondition):
    """phi is 1 for SMILES of at least one atom that RDKit reads and sanitises, and 0 for others.

    No opinion of prefixes; :class:`SmilesPrefix` beside it has one. Names and extensions after a blank are refused.

    Raises:
        MissingPackageError: RDKit is not installed.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        _package("rdkit.Chem", "ValidMolecule")

    def holds(self, text: str) -> bool:
        return _molecule(text) is not None


@dataclass(frozen=True)
class MoleculeScore(TextBased):
    """A log value of the molecule that a finished SMILES describes; phi is 0 where RDKit reads none.

    Attributes:
        log_score: RDKit molecule to log phi, such as ``lambda mol: math.log(QED.qed(mol))``.
        log_bound: the most that it can return; infinity if unknown.
        memo: see :class:`smc.potentials.TextBased`.

    Raises:
        MissingPackageError: RDKit is not installed. OptionError: a score that is no function, a bound that is no
            log value.
    """

    log_score: Callable[[Any], float]
    log_bound: float = np.inf

    def __post_init__(self) -> None:
        super().__post_init__()
        function_of("log_score", self.log_score, "a molecule")
        checked_log_bound(self.log_bound)
        _package("rdkit.Chem", "MoleculeScore")

    def judge(self, text: str) -> float:
        molecule = _molecule(text)
        return -np.inf if molecule is None else self.log_score(molecule)


def _molecule(text: str) -> Any:
    """The sanitised molecule, or None; without RDKit's messages."""
    chem, base = _package("rdkit.Chem", "ValidMolecule"), _package("rdkit.rdBase", "ValidMolecule")
    if not text.isascii() or text.split() != [text]:
        return None
    options = chem.SmilesParserParams()
    options.parseName = options.allowCXSMILES = False
    with base.BlockLogs():
        molecule = chem.MolFromSmiles(text, options)
    return molecule if molecule is not None and molecule.GetNumAtoms() else None
