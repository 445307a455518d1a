"""What the formats of JSON Schema look like, as patterns that a mask can follow."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from smc.constraints.ecma_regex import Untranslatable, full_match
from smc.constraints.json_formats import URI_TEMPLATE
from smc.constraints.regex_tree import Tree
from smc.constraints.schema_graph import String, Written

_YEAR = "(?:000[1-9]|00[1-9][0-9]|0[1-9][0-9]{2}|[1-9][0-9]{3})"
_LEAP = "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)"
_DATE = (
    f"(?:{_YEAR}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
    f"|02-(?:0[1-9]|1[0-9]|2[0-8]))|{_LEAP}-02-29)"
)
_TIME = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:(?:[0-5][0-9]|60)(?:\.[0-9]+)?(?:[Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
_CLOCK = "T(?:[0-9]+H(?:[0-9]+M(?:[0-9]+S)?)?|[0-9]+M(?:[0-9]+S)?|[0-9]+S)"
_DAYS = "(?:[0-9]+Y(?:[0-9]+M(?:[0-9]+D)?)?|[0-9]+M(?:[0-9]+D)?|[0-9]+D)"
_OCTET = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_IPV4 = rf"{_OCTET}(?:\.{_OCTET}){{3}}"
_H16 = "[0-9a-fA-F]{1,4}"
_LS32 = f"(?:{_H16}:{_H16}|{_IPV4})"
_IPV6 = "|".join(
    [f"(?:{_H16}:){{6}}{_LS32}", f"::(?:{_H16}:){{5}}{_LS32}", f"(?:{_H16})?::(?:{_H16}:){{4}}{_LS32}"]
    + [f"(?:(?:{_H16}:){{0,{4 - n}}}{_H16})?::(?:{_H16}:){{{n}}}{_LS32}" for n in (3, 2, 1)]
    + [
        f"(?:(?:{_H16}:){{0,4}}{_H16})?::{_LS32}",
        f"(?:(?:{_H16}:){{0,5}}{_H16})?::{_H16}",
        f"(?:(?:{_H16}:){{0,6}}{_H16})?::",
    ]
)
_LABEL = "[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_ATOM = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
_MAILBOX = (
    rf'(?:{_ATOM}(?:\.{_ATOM})*|"(?:[ !#-\[\]-~]|\\[ -~])*")'
    rf"@(?:{_LABEL}(?:\.{_LABEL})*|\[(?:{_IPV4}|[Ii][Pp][Vv]6:[0-9a-fA-F:.]+)\])"
)
_URI = r"[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=%-]"
_IRI = r'[^\x00-\x20"<>\\^`{|}]'

_EXACT = {
    "date": _DATE,
    "duration": f"P(?:{_DAYS}(?:{_CLOCK})?|{_CLOCK}|[0-9]+W)",
    "ip-address": _IPV4,
    "ipv4": _IPV4,
    "ipv6": _IPV6,
    "json-pointer": "(?:/(?:[^~/]|~[01])*)*",
    "relative-json-pointer": "(?:0|[1-9][0-9]*)(?:#|(?:/(?:[^~/]|~[01])*)*)",
    "uri-template": URI_TEMPLATE,
    "uuid": "[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}",
}
_WIDER = {
    "date-time": f"{_DATE}[Tt]{_TIME}",
    "email": _MAILBOX,
    "hostname": r"[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*\.?",
    "iri": f"[A-Za-z][A-Za-z0-9+.-]*:{_IRI}*",
    "iri-reference": f"{_IRI}*",
    "time": _TIME,
    "uri": f"[A-Za-z][A-Za-z0-9+.-]*:{_URI}*",
    "uri-reference": f"{_URI}*",
}


@cache
def format_tree(name: str) -> tuple[Tree | None, bool]:
    """The texts of a format that the validator checks, and whether they are exactly those: (tree, exact).

    The tree never leaves out a text that the validator takes; it is None where nothing is known of the format.
    """
    pattern = _EXACT.get(name) or _WIDER.get(name)
    return (full_match(f"^(?:{pattern})$") if pattern else None), name in _EXACT


def condition_trees(part: String, formats: frozenset[str], note: Callable[[Written, str, str], None]) -> list[Tree]:
    """The patterns and checked formats of a string as trees; what cannot be written as one, or not exactly, is noted.

    Args:
        formats: those that the validator checks; others are annotations.
        note: takes the place, the keyword and the case of the table.
    """
    trees: list[Tree] = []
    for pattern, at in part.patterns:
        try:
            trees.append(full_match(pattern))
            note(((at, "pattern"),), "pattern", "spelling")
        except Untranslatable as error:
            note(((at, "pattern"),), "pattern", str(error))
    for name, at in part.formats:
        if name not in formats:
            continue
        tree, exact = format_tree(name)
        if tree is None or not exact:
            note(((at, "format"),), "format", "wider")
        if tree is not None:
            trees.append(tree)
            note(((at, "format"),), "format", "spelling")
    return trees
