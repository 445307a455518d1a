"""Sequential Monte Carlo steering of language models: the exact posterior under a constraint, not a masked imitation."""

from smc import baselines
from smc.constraints import (
    EBNF,
    GBNF,
    Choice,
    Everything,
    FiniteLanguage,
    Intersection,
    JSONSchema,
    Lark,
    Regex,
    StructuralTag,
)
from smc.errors import SMCError
from smc.models import HFModel, TableModel
from smc.potentials import TextPotential
from smc.proposal import Proposal
from smc.result import SMCResult
from smc.sampler import Job, SMCSampler

__all__ = [
    "EBNF",
    "GBNF",
    "Choice",
    "Everything",
    "FiniteLanguage",
    "HFModel",
    "Intersection",
    "JSONSchema",
    "Job",
    "Lark",
    "Proposal",
    "Regex",
    "SMCError",
    "SMCResult",
    "SMCSampler",
    "StructuralTag",
    "TableModel",
    "TextPotential",
    "baselines",
]
