"""Sequential Monte Carlo steering of language models: the exact posterior under a constraint, not a masked imitation."""

from smc import baselines, diagnostics
from smc.boundaries import AtBoundaries
from smc.canonical import CanonicalTokens
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
from smc.potentials import (
    Guarded,
    Incremental,
    InProcesses,
    Matches,
    ModelCritic,
    MoleculeScore,
    ParsesSQL,
    PotentialError,
    Predicate,
    SmilesPrefix,
    TextCondition,
    TextPotential,
    Validates,
    ValidMolecule,
)
from smc.proposal import Proposal
from smc.rescoring import Rescored, rescore
from smc.result import SMCResult
from smc.sampler import Job, SMCSampler
from smc.surrogates import fit_surrogate
from smc.watching import Progress, watch

__all__ = [
    "EBNF",
    "GBNF",
    "AtBoundaries",
    "CanonicalTokens",
    "Checked",
    "Choice",
    "Everything",
    "FiniteLanguage",
    "Free",
    "Guarded",
    "HFModel",
    "InProcesses",
    "Incremental",
    "Intersection",
    "JSONSchema",
    "Job",
    "Lark",
    "LearnedTwist",
    "LookaheadTwist",
    "Matches",
    "MemoModel",
    "ModelCritic",
    "MoleculeScore",
    "ParsesSQL",
    "PotentialError",
    "Predicate",
    "Progress",
    "Proposal",
    "Reasoning",
    "Regex",
    "Rescored",
    "SMCError",
    "SMCResult",
    "SMCSampler",
    "SmilesPrefix",
    "StructuralTag",
    "TableModel",
    "Template",
    "TextCondition",
    "TextPotential",
    "ToolCalls",
    "ValidMolecule",
    "Validates",
    "baselines",
    "diagnostics",
    "fit_surrogate",
    "rescore",
    "watch",
]
