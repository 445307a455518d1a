"""What is allowed: languages as plain values, compiled for a vocabulary into rows of masks."""

from smc.constraints.base import CompiledConstraint, Constraint, ConstraintRows, mask_words, pack, unpack
from smc.constraints.checked import Checked
from smc.constraints.choice import Choice
from smc.constraints.combine import Intersection
from smc.constraints.everything import Everything
from smc.constraints.finite import FiniteLanguage
from smc.constraints.grammars import EBNF, GBNF, StructuralTag
from smc.constraints.json_schema import JSONSchema
from smc.constraints.lark_language import Lark
from smc.constraints.notes import Language, LanguageNote
from smc.constraints.reasoning import Reasoning
from smc.constraints.regex import Regex
from smc.constraints.template import Free, Template
from smc.constraints.tool_calls import ToolCall, ToolCalls

__all__ = [
    "EBNF",
    "GBNF",
    "Checked",
    "Choice",
    "CompiledConstraint",
    "Constraint",
    "ConstraintRows",
    "Everything",
    "FiniteLanguage",
    "Free",
    "Intersection",
    "JSONSchema",
    "Language",
    "LanguageNote",
    "Lark",
    "Reasoning",
    "Regex",
    "StructuralTag",
    "Template",
    "ToolCall",
    "ToolCalls",
    "mask_words",
    "pack",
    "unpack",
]
