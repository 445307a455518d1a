"""What can be chosen on the command line, and what each choice means.

There is one place for both: the files of `configs/`, each of which begins with a comment. `--help` and the report's notes
read its first line.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

CONFIGS = Path(__file__).resolve().parent.parent / "configs"
GROUPS = ("task", "method", "model", "tracking", "study")
LAUNCHERS = "hydra/launcher"


@cache
def meanings(group: str) -> dict[str, str]:
    """The choices of a group of `configs/` in the order of their names, each with a sentence on what it is."""
    return {path.stem: _first_words(path) for path in sorted((CONFIGS / group).glob("*.yaml"))}


def _first_words(path: Path) -> str:
    """The first comment line, without a `# @package` line, which is Hydra's."""
    comments = (
        line.removeprefix("#").strip() for line in path.read_text(encoding="utf-8").splitlines() if line[:1] == "#"
    )
    return next((words for words in comments if not words.startswith("@")), "")
