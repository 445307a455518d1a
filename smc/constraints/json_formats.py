"""What `format` asserts: one checker for each format that can be checked, and a list of them.

Most checkers are the `jsonschema` package's, which has them where another package knows the format. Those written here
take its place where it is far from the standard: it takes any text with an ``@`` for an e-mail address, no leap second,
Python's regular expressions for ECMA's, host names in Punycode that stand for nothing, and any text without a bad brace for
a URI template; and where it is slow: its grammar for IRIs takes seconds for a long one.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from functools import cache
from typing import Any
from urllib.parse import quote

import idna
import jsonschema
import regex  # type: ignore[import-untyped]
from jsonschema import FormatChecker

from smc.constraints.json_patterns import compiled
from smc.errors import ConstraintError

_LATEST = jsonschema.Draft202012Validator
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_ATOM = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"

EMAIL = rf'(?:{_ATOM}(?:\.{_ATOM})*|"(?:[ !#-\[\]-~]|\\[ -~])*")@(?:{_LABEL}(?:\.{_LABEL})*|\[[^\[\]\\\s@%]+\])'
"""A mailbox as in section 4.1.2 of RFC 5321, for a full match; what stands in brackets has yet to be looked at."""

_UNICODE = "\xa0-\ud7ff\uf900-\ufdcf\ufdf0-\uffef" + "".join(
    f"{chr((plane << 16) + (0x1000 if plane == 14 else 0))}-{chr((plane << 16) + 0xFFFD)}" for plane in range(1, 15)
)
"""The ranges `ucschar` of RFC 3987."""

_PRIVATE_USE = "\ue000-\uf8ff\U000f0000-\U000ffffd\U00100000-\U0010fffd"
_PERCENT = "%[0-9A-Fa-f]{2}"
_NAME = rf"(?:[0-9A-Za-z_]|{_PERCENT})(?:\.?(?:[0-9A-Za-z_]|{_PERCENT}))*"
_VARIABLE = rf"{_NAME}(?::[1-9][0-9]{{0,3}}|\*)?"
URI_TEMPLATE = (
    rf"(?:[!#$&'()*+,./0-9:;=?@A-Z\[\]_a-z~\-{_UNICODE}{_PRIVATE_USE}]|{_PERCENT}"
    rf"|\{{[+#./;?&=,!@|]?{_VARIABLE}(?:,{_VARIABLE})*\}})*"
)
"""A template as in section 2 of RFC 6570 (and its erratum: an apostrophe is a literal), for a full match."""

_WIDE_ATOM = rf"[A-Za-z0-9!#$%&'*+/=?^_`{{|}}~{_UNICODE}\-]+"
_WIDE_NAME = rf'(?:{_WIDE_ATOM}(?:\.{_WIDE_ATOM})*|"(?:[ !#-\[\]-~{_UNICODE}]|\\[ -~])*")'
_DATE_TIME = r"(?P<date>[0-9]{4}-[0-9]{2}-[0-9]{2})[Tt](?P<time>.*)"
_TIME = r"([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.[0-9]+)?(?:[Zz]|([+-])([0-9]{2}):([0-9]{2}))"
_CLOCK = r"T(?:[0-9]+H(?:[0-9]+M(?:[0-9]+S)?)?|[0-9]+M(?:[0-9]+S)?|[0-9]+S)"
_DAYS = r"(?:[0-9]+Y(?:[0-9]+M(?:[0-9]+D)?)?|[0-9]+M(?:[0-9]+D)?|[0-9]+D)"
_DURATION = rf"P(?:{_DAYS}(?:{_CLOCK})?|{_CLOCK}|[0-9]+W)"
_UUID = "[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_RELATIVE_POINTER = r"(?:0|[1-9][0-9]*)(?:#|(?:/(?:[^~/]|~[01])*)*)"


def checked_formats(draft: type[jsonschema.protocols.Validator] = _LATEST) -> frozenset[str]:
    """The formats that are checked under a draft of JSON Schema; any other is an annotation and asserts nothing.

    Args:
        draft: as :func:`jsonschema.validators.validator_for` gives it for a schema.
    """
    return frozenset(format_checker(draft).checkers)


@cache
def format_checker(draft: type[jsonschema.protocols.Validator] = _LATEST) -> FormatChecker:
    """What checks the formats that a draft defines. Values that are not strings have any format."""
    checker = FormatChecker(formats=())
    defined = dict(draft.FORMAT_CHECKER.checkers)
    checks = {name: _theirs(check, name in _WITHOUT_BLANKS) for name, (check, _) in defined.items()}
    checks |= {iri: _is_iri(checks[uri]) for iri, uri in _IRIS.items() if iri in checks and uri in checks}
    checks |= {name: _OWN[name] for name in _defined_by(draft)}
    checker.checkers = {name: (_of_strings(check), ()) for name, check in sorted(checks.items())}
    return checker


def _of_strings(check: Callable[[str], bool]) -> Callable[[object], bool]:
    return lambda instance: not isinstance(instance, str) or check(instance)


def _theirs(check: Callable[[Any], Any], without_blanks: bool) -> Callable[[str], bool]:
    """The package's checker, that it may fail in any way, and not overlook a newline at the end."""

    def conforms(text: str) -> bool:
        if without_blanks and any(character.isspace() for character in text):
            return False
        try:
            return bool(check(text))
        except Exception:  # parsers of strange texts raise strange things
            return False

    return conforms


def _defined_by(draft: type[jsonschema.protocols.Validator]) -> set[str]:
    """Which of the formats written here a draft defines."""
    dialect = str(draft.META_SCHEMA.get("$schema", ""))
    names = {"date-time", "email", "hostname", "regex"}
    if "draft-04" in dialect:
        return names
    names.add("uri-template")
    if "draft-06" in dialect:
        return names
    names |= {"idn-email", "relative-json-pointer", "time"}
    return names if "draft-07" in dialect else names | {"duration", "uuid"}


def _full(pattern: str) -> Callable[[str], bool]:
    whole = regex.compile(pattern)
    return lambda text: whole.fullmatch(text) is not None


def _is_email(text: str) -> bool:
    if not _MAILBOX.fullmatch(text):
        return False
    literal = text[text.rindex("@") + 2 : -1] if text.endswith("]") else None
    if literal is None:
        return True
    try:
        if literal.lower().startswith("ipv6:"):
            ipaddress.IPv6Address(literal[5:])
        else:
            ipaddress.IPv4Address(literal)
    except ValueError:
        return False
    return True


def _is_idn_email(text: str) -> bool:
    """A mailbox as RFC 6531 extends it: a host name in any script, and a name in any but for control characters."""
    name, _, host = text.rpartition("@")
    return _is_email(text) or bool(
        _WIDE_MAILBOX_NAME.fullmatch(name) and _LATEST.FORMAT_CHECKER.conforms(host, "idn-hostname")
    )


def _is_hostname(text: str) -> bool:
    """A name as in section 2.1 of RFC 1123, of which each label in Punycode stands for one in another script (RFC 5891)."""
    if not text.isascii() or any(c.isspace() for c in text) or not _LATEST.FORMAT_CHECKER.conforms(text, "hostname"):
        return False
    return all(_stands_for_another(label) for label in text.split(".") if label[:4].lower() == "xn--")


def _stands_for_another(label: str) -> bool:
    try:
        return not idna.ulabel(label).isascii()
    except UnicodeError:
        return False


def _is_iri(check_uri: Callable[[str], bool]) -> Callable[[str], bool]:
    """An IRI (or a reference to one) by the URI that section 3.1 of RFC 3987 maps it to."""

    def conforms(text: str) -> bool:
        query = text.partition("#")[0].partition("?")[2]
        private = len(_PRIVATE.findall(text)) == len(_PRIVATE.findall(query))  # these may stand in the query alone
        return private and check_uri(_BEYOND_ASCII.sub(lambda match: quote(match[0]), text))

    return conforms


def _is_time(text: str) -> bool:
    match = _CLOCK_TIME.fullmatch(text)
    if match is None:
        return False
    hour, minute, second = (int(match[i]) for i in (1, 2, 3))
    sign, ahead_hours, ahead_minutes = match[4], int(match[5] or 0), int(match[6] or 0)
    if hour > 23 or minute > 59 or second > 60 or ahead_hours > 23 or ahead_minutes > 59:
        return False
    ahead = (ahead_hours * 60 + ahead_minutes) * (-1 if sign == "-" else 1)
    return second < 60 or (hour * 60 + minute - ahead) % 1440 == 1439  # a leap second ends a day in UTC


def _is_date_time(text: str) -> bool:
    match = _DATE_AND_TIME.fullmatch(text)
    return match is not None and _LATEST.FORMAT_CHECKER.conforms(match["date"], "date") and _is_time(match["time"])


def _is_regex(text: str) -> bool:
    try:
        compiled(text)
    except ConstraintError:
        return False
    return True


_PRIVATE = regex.compile(f"[{_PRIVATE_USE}]")
_BEYOND_ASCII = regex.compile(f"[{_UNICODE}{_PRIVATE_USE}]+")
_WIDE_MAILBOX_NAME = regex.compile(_WIDE_NAME)
_MAILBOX, _CLOCK_TIME, _DATE_AND_TIME = regex.compile(EMAIL), regex.compile(_TIME), regex.compile(_DATE_TIME)
_IRIS = {"iri": "uri", "iri-reference": "uri-reference"}
_WITHOUT_BLANKS = frozenset({"uri", "uri-reference"})
_OWN: dict[str, Callable[[str], bool]] = {
    "date-time": _is_date_time,
    "duration": _full(_DURATION),
    "email": _is_email,
    "hostname": _is_hostname,
    "idn-email": _is_idn_email,
    "regex": _is_regex,
    "relative-json-pointer": _full(_RELATIVE_POINTER),
    "time": _is_time,
    "uri-template": _full(URI_TEMPLATE),
    "uuid": _full(_UUID),
}
