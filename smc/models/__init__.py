"""Language models behind one protocol."""

from smc.models.base import LanguageModel, ModelRows
from smc.models.huggingface import HFModel
from smc.models.memo import MemoModel
from smc.models.table import TableModel

__all__ = ["HFModel", "LanguageModel", "MemoModel", "ModelRows", "TableModel"]
