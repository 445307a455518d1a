"""Soft conditions: a potential multiplies the target by phi(y), and may say early what it thinks of a prefix.

A potential is a value without run state (what it remembers are answers of pure functions). ``start(vocabulary)`` gives
rows that move by the same verb as the model's (:mod:`smc.rows`). While a sequence grows, its weight includes the
running value ``log_prefix``; when it ends, that is replaced by the final ``log_complete``. So intermediate values steer
the search and cancel from the result.
"""

from smc.potentials.base import CountingRows, Potential, PotentialRows, ProductRows
from smc.potentials.critic import ModelCritic
from smc.potentials.failures import Guarded, PotentialError
from smc.potentials.incremental import Incremental
from smc.potentials.matches import Matches
from smc.potentials.molecules import MoleculeScore, SmilesPrefix, ValidMolecule
from smc.potentials.predicate import Predicate
from smc.potentials.processes import InProcesses
from smc.potentials.sql import ParsesSQL
from smc.potentials.text import TextBased, TextCondition, TextPotential
from smc.potentials.validates import Validates

__all__ = [
    "CountingRows",
    "Guarded",
    "InProcesses",
    "Incremental",
    "Matches",
    "ModelCritic",
    "MoleculeScore",
    "ParsesSQL",
    "Potential",
    "PotentialError",
    "PotentialRows",
    "Predicate",
    "ProductRows",
    "SmilesPrefix",
    "TextBased",
    "TextCondition",
    "TextPotential",
    "ValidMolecule",
    "Validates",
]
