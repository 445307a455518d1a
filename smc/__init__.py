"""Sequential Monte Carlo steering of language models: the exact posterior under a constraint, not a masked imitation."""

from smc import baselines, diagnostics
from smc.boundaries import AtBoundaries
from smc.constraints import (
    EBNF,
    GBNF,
    Checked,
    Choice,
    Everything,
    FiniteLanguage,
    Free,
    Intersection,
    JSONSchema,
    Lark,
    Reasoning,
    Regex,
    StructuralTag,
    Template,
    ToolCalls,
)
from smc.errors import SMCError
from smc.learned_twist import LearnedTwist
from smc.lookahead import LookaheadTwist
from smc.models import HFModel, MemoModel, TableModel
from smc.potentials import TextPotential
from smc.proposal import Proposal
from smc.result import SMCResult
from smc.sampler import Job, SMCSampler
from smc.surrogates import fit_surrogate

__all__ = [
    "EBNF",
    "GBNF",
    "AtBoundaries",
    "Checked",
    "Choice",
    "Everything",
    "FiniteLanguage",
    "Free",
    "HFModel",
    "Intersection",
    "JSONSchema",
    "Job",
    "Lark",
    "LearnedTwist",
    "LookaheadTwist",
    "MemoModel",
    "Proposal",
    "Reasoning",
    "Regex",
    "SMCError",
    "SMCResult",
    "SMCSampler",
    "StructuralTag",
    "TableModel",
    "Template",
    "TextPotential",
    "ToolCalls",
    "baselines",
    "diagnostics",
    "fit_surrogate",
]
