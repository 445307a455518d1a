"""Numbers and untrusted text, made fit to be read.

Model output is untrusted: it may hold markup, control characters, text-direction overrides, or bytes that are
not UTF-8 (kept as lone surrogates). `visible` makes all of that show; the `markdown_*` functions keep it from
being markup. HTML is escaped by the template engine.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Sequence

NOTHING = "—"
_MARKDOWN = re.compile(r"[\\`*_\[\]|~$]")
_MARKDOWN_START = re.compile(r"^(#+|[+=-]+|\d+[.)])(?=\s|$)")  # would begin a heading, a rule or a list


def visible(text: str, limit: int = 1200) -> str:
    """`text` with unprintable characters as escapes; beyond `limit` characters it is only counted."""
    shown = "".join(_visible_character(c) for c in text[:limit])
    return shown + (f" … ({len(text) - limit} more characters)" if len(text) > limit else "")


def _visible_character(character: str) -> str:
    code = ord(character)
    if character in "\n\t":
        return character
    if 0xDC80 <= code <= 0xDCFF:  # a byte kept apart by surrogateescape
        return f"\\x{code - 0xDC00:02x}"
    category = unicodedata.category(character)
    if category == "Cc":
        return f"\\x{code:02x}"
    if category in ("Cs", "Zl", "Zp") or category == "Cf":
        return f"\\u{code:04x}"
    return character


def markdown_text(text: str) -> str:
    """`text` as plain words in a Markdown line or table cell: no markup survives in it."""
    shown = " ".join(visible(text).split())
    escaped = _MARKDOWN.sub(lambda m: "\\" + m.group(), shown)
    escaped = escaped.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _MARKDOWN_START.sub(lambda m: m.group()[:-1] + "\\" + m.group()[-1], escaped)


def markdown_code(text: str) -> str:
    """`text` as one Markdown code span; line breaks become a visible sign."""
    shown = visible(text).replace("\n", "⏎").replace("\t", "⇥")
    if not shown.strip():
        return f"(empty or blank, {len(text)} characters)"
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", shown)), default=0))
    pad = " " if shown[0] in "` " or shown[-1] in "` " else ""
    return f"{fence}{pad}{shown}{pad}{fence}"


def markdown_block(text: str) -> str:
    """`text` as an indented Markdown code block: nothing inside it can be markup or end it."""
    return "\n".join("    " + line for line in visible(text).split("\n"))


def number(value: float | None, digits: int = 2) -> str:
    """A number with a true minus sign, "∞" for infinity and a dash for nothing."""
    if value is None or math.isnan(value):
        return NOTHING
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    return _plain(f"{value:.{digits}f}")


def signed(value: float | None, digits: int = 2) -> str:
    """`number` with its sign always shown."""
    shown = number(value, digits)
    positive = value is not None and value > 0 and shown.strip("0.") != ""
    return f"+{shown}" if positive else shown


def percent(value: float | None, digits: int = 1) -> str:
    """A share as a percentage."""
    return NOTHING if value is None or math.isnan(value) else number(100 * value, digits) + "%"


def points(value: float | None, digits: int = 1) -> str:
    """A difference of shares in percentage points, signed, without the word."""
    return NOTHING if value is None else signed(100 * value, digits)


def whole(value: float | None) -> str:
    """A count, thousands apart."""
    return NOTHING if value is None or math.isnan(value) else f"{value:,.0f}"


def counted(count: int, singular: str, plural: str | None = None) -> str:
    """ "1 instance", "3 instances"."""
    return f"{count:,} {singular if count == 1 else plural or singular + 's'}"


def listed(words: list[str]) -> str:
    """ "a", "a and b", "a, b and c"."""
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + " and " + words[-1] if words else ""


def some(names: Sequence[str], most: int = 3) -> str:
    """The first few names, and how many more there are."""
    rest = len(names) - most
    return ", ".join(names[:most]) + (f" and {rest} more" if rest > 0 else "")


def slug(text: str) -> str:
    """`text` as a safe part of a file name or an anchor."""
    return re.sub(r"[^A-Za-z0-9]+", "-", text).strip("-").lower() or "unnamed"


def _plain(shown: str) -> str:
    """Minus zero is zero, and a minus is not a hyphen."""
    return shown.removeprefix("-") if float(shown) == 0 else shown.replace("-", "−")
