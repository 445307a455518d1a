"""What `format` and `pattern` assert: both sides of every format that is checked, in every draft that defines it."""

from __future__ import annotations

from itertools import product
from typing import Any

import jsonschema
import pytest

from smc import JSONSchema
from smc.constraints import json_patterns
from smc.constraints.json_formats import checked_formats, format_checker
from smc.constraints.json_patterns import compiled, found, in_python
from smc.constraints.json_validator import schema_validator
from smc.errors import ConstraintError

# What each takes and what it refuses.
FORMATS: dict[str, tuple[list[str], list[str]]] = {
    "date-time": (
        [
            "1963-06-19T08:30:06.283185Z",
            "1963-06-19T08:30:06Z",
            "1990-12-31T15:59:50.123-08:00",
            "1998-12-31T23:59:60Z",
            "1998-12-31T15:59:60.123-08:00",
            "1963-06-19t08:30:06.283185z",
            "2024-02-29T00:00:00Z",
        ],
        [
            "1998-12-31T23:58:60Z",
            "1990-02-31T15:59:59.123-08:00",
            "1990-12-31T15:59:59-24:00",
            "06/19/1963T08:30:06PST",
            "2013-350T01:01:01",
            "1963-6-19T08:30:06.283185Z",
            "1963-06-19T08:30:06",
            "1963-06-19T24:00:00Z",
            "1963-06-1৪T00:00:00Z",
            "1963-06-11T0৪:00:00Z",
            "2023-02-29T00:00:00Z",
            "1963-06-19 08:30:06Z",
            "",
        ],
    ),
    "date": (
        ["1963-06-19", "2020-01-31", "2024-02-29"],
        [
            "2021-02-29",
            "06/19/1963",
            "2013-350",
            "1998-1-20",
            "1998-13-01",
            "20230328",
            "2023-W13-2",
            "1963-06-1৪",
            "2020-01-32",
        ],
    ),
    "time": (
        ["08:30:06Z", "23:59:60Z", "08:30:06.283185Z", "01:01:01+01:00", "08:30:06z", "15:59:60-08:00"],
        [
            "008:030:006Z",
            "8:3:6Z",
            "22:59:60Z",
            "12:00:00",
            "24:00:00Z",
            "01:02:03+24:00",
            "01:02:03Z+00:30",
            "08:30:06PST",
            "08:30:06#00:20",
        ],
    ),
    "duration": (
        ["P4DT12H30M5S", "P4Y", "PT0S", "P0D", "P1M", "PT1M", "P2W", "PT36H"],
        [
            "PT1D",
            "P1Y1D",
            "PT1H1S",
            "4DT12H30M5S",
            "P",
            "P1YT",
            "PT",
            "P2D1Y",
            "P1D2H",
            "P2S",
            "P1Y2W",
            "P২Y",
            "P1",
            "1Y",
            "PT1.5S",
            "P-1Y",
            "P1.5D",
        ],
    ),
    "email": (
        [
            "joe.bloggs@example.com",
            "a@b.c",
            "te~st@example.com",
            "~test@example.com",
            "test~@example.com",
            "te.s.t@example.com",
            '"joe..bloggs"@example.com',
            '"joe@bloggs"@example.com',
            "joe.bloggs@[127.0.0.1]",
            "joe.bloggs@[IPv6:::1]",
            "a@localhost",
            '"joe bloggs"@example.com',
        ],
        [
            "2962",
            "@",
            "a@",
            "@b",
            ".test@example.com",
            "test.@example.com",
            "te..st@example.com",
            "joe.bloggs@invalid=domain.com",
            "joe.bloggs@[127.0.0.300]",
            "a@[@11.2.3.4]",
            "a@[1@.23.4.23.4]",
            "a@[IPv6:::%1]",
            "a@[x]@[1.2.3.4]",
            "a@b@c",
            "a b@c.d",
            "joe.bloggs@example.com\n",
        ],
    ),
    "idn-email": (
        ["실례@실례.테스트", "joe@example.com", '"실 례"@실례.테스트', "a.b@[127.0.0.1]"],
        ["2962", "@", "a@", "실 례@실례.테스트", "실례@-x.테스트", "실..례@실례.테스트", "실례@xn--X.테스트"],
    ),
    "hostname": (
        [
            "www.example.com",
            "xn--4gbwdl.xn--wgbh1c",
            "xn--ihqwcrb4cv8a8dqg056pqjye",
            "XN--WVA3JE",
            "xn--ll-0ea",
            "1host",
            "a-b",
            "a",
            "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
        ],
        [
            "xn--X",
            "xn--a",
            "xn--",
            "ok.xn--X",
            "xn--hello-txk",
            "xn--al-0ea",
            "XN--aa---o47jg78q",
            "xn--wva3j",
            "-bad",
            "a_b",
            "a..b",
            ".a",
            "bad-",
            "{}",
            "a/b",
            "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
            "",
            " a",
        ],
    ),
    "idn-hostname": (
        ["실례.테스트", "www.example.com", "l·l", "xn--ll-0ea", "a。b"],
        ["〮실례.테스트", "-hello", "a·l", "xn--X", "xn--al-0ea", "ok.xn--X", "xn--"],
    ),
    "ipv4": (
        ["192.168.0.1", "0.0.0.0", "255.255.255.255"],
        [
            "127.0.0.0.1",
            "256.1.1.1",
            "127.0",
            "0x7f000001",
            "087.10.0.1",
            "1২7.0.0.1",
            "192.168.1.0/24",
            " 1.1.1.1",
            "",
        ],
    ),
    "ipv6": (
        ["::1", "::abef", "d6::", "1:d6::42", "1::d6:192.168.0.1", "::ffff:192.168.0.1", "1:2:3:4:5:6:7:8", "::"],
        [
            "12345::",
            "1",
            "::laptop",
            "1:1:1:1:1:1:1:1:1",
            "fe80::a%eth1",
            "fe80::/64",
            "1:2:3:4:5:6:7",
            "::abcef",
            "1:2::3::4",
            "1:2:3:4:5:::8",
        ],
    ),
    "uuid": (
        [
            "2EB8AA08-AA98-11EA-B4AA-73B441D16380",
            "2eb8aa08-aa98-11ea-b4aa-73b441d16380",
            "00000000-0000-0000-0000-000000000000",
        ],
        [
            "2eb8aa08-aa98-11ea-b4aa-73b441d1638",
            "2eb8aa08-aa98-11ea-73b441d16380",
            "2eb8aa08-aa98-11ea-b4ga-73b441d16380",
            "2eb8aa08aa9811eab4aa73b441d16380",
            "2eb8aa08aa98-11ea-b4aa73b441d16380",
            "2eb8-aa08-aa98-11ea-b4aa73b44-1d16380",
            "2eb8aa08-aa98-11ea-b4aa-73b44-1d16380",
            "{2eb8aa08-aa98-11ea-b4aa-73b441d16380}",
        ],
    ),
    "uri": (
        [
            "http://foo.bar/?baz=qux#quux",
            "http://example.com/blah_(wikipedia)_blah#cite-1",
            "ftp://ftp.is.co.za/rfc/rfc1808.txt",
            "mailto:John.Doe@example.com",
            "urn:oasis:names:x",
            "tel:+1-816-555-1212",
            "ldap://[2001:db8::7]/c=GB?objectClass?one",
            "http://-.~_!$&'()*+,;=:%40:80%2f::::::@example.com",
        ],
        [
            "//foo.bar/?baz=qux#quux",
            "/abc",
            "foo",
            "://",
            "http://[",
            "\\\\WINDOWS\\share",
            "abc",
            "%zz",
            "http:%zz",
            "bar,:///",
            "http:// shouldfail.com",
            "",
            "http://example.com:a",
            "http://foo/<bar>",
        ],
    ),
    "uri-reference": (
        ["http://foo.bar/?baz=qux#quux", "//foo.bar/?baz", "/abc", "abc", "#fragment", ""],
        ["\\\\WINDOWS\\filéshare", "#frag\\ment", "/foo["],
    ),
    "iri": (
        [
            "http://ƒøø.ßår/?∂éœ=πîx#πîüx",
            "http://ƒøø.com/blah_(wîkïpédiå)_blah#ßité-1",
            "http://[2001:0db8:85a3:0000:0000:8a2e:0370:7334]",
        ],
        ["/abc", "\\\\WINDOWS\\filëßåré", "âππ", "http://2001:0db8:85a3:0000:0000:8a2e:0370:7334"],
    ),
    "iri-reference": (
        ["//ƒøø.ßår/?∂éœ=πîx#πîüx", "/âππ", "âππ", "#ƒrägmênt"],
        ["\\\\WINDOWS\\filëßåré", "#ƒräg\\mênt"],
    ),
    "uri-template": (
        [
            "http://example.com/dictionary/{term:1}/{term}",
            "dictionary",
            "http://example.com/{+path*}",
            "",
            "X{#path,x}here",
            "{.who}{/var:1,var}{;x,y,empty}{?x,y}{&x*}",
            "?fixed=yes{&x}",
            "a%41b{%41}{a.b}",
            "a\U0001f600\ue000b'",
            "{v:1000}",
        ],
        [
            "http://example.com/dictionary/{term:1}/{term",
            "{a",
            "{}",
            "{a,,b}",
            "{a,}",
            "{,+a}",
            "{v:0}",
            "{v:01}",
            "{v:10000}",
            "foo}bar",
            "a%",
            "a%GG",
            "{%4}",
            "{a..b}",
            "{var=def}",
            "a b",
            "a\x7f",
            "a\n",
            "<",
        ],
    ),
    "json-pointer": (
        ["/foo/bar~0/baz~1/%a", "/foo//bar", "/", "/~01", "/foo/-", ""],
        ["/foo/bar~", "/~2", "#/", "a", "0", "/~0~"],
    ),
    "relative-json-pointer": (
        ["1", "0/foo/bar", "2/0/baz/1/zip", "0#", "120/foo/bar"],
        ["/foo/bar", "-1/foo/bar", "+1/foo/bar", "0##", "01/a", "01#", "²", "1²", "", "multi"],
    ),
    "regex": (
        ["([abc])+\\s+$", "^a$", "(?<n>a)", "\\d{2}", "[^]"],
        ["^(abc]", "a(", "*a", "\\Z", "\\a", "[a", "^\\S(|(.|\\n)*\\S)\\Z"],
    ),
}

DRAFTS: dict[str, tuple[type, set[str]]] = {}
_FOURTH = {"date-time", "email", "hostname", "idn-email", "ipv4", "ipv6", "regex", "uri"}
_SIXTH = _FOURTH | {"json-pointer", "uri-reference", "uri-template"}
_SEVENTH = _SIXTH | {"date", "idn-hostname", "iri", "iri-reference", "relative-json-pointer", "time"}
DRAFTS["http://json-schema.org/draft-04/schema#"] = jsonschema.Draft4Validator, _FOURTH
DRAFTS["http://json-schema.org/draft-06/schema#"] = jsonschema.Draft6Validator, _SIXTH
DRAFTS["http://json-schema.org/draft-07/schema#"] = jsonschema.Draft7Validator, _SEVENTH
_LATEST = _SEVENTH | {"duration", "uuid"}
DRAFTS["https://json-schema.org/draft/2019-09/schema"] = jsonschema.Draft201909Validator, _LATEST
DRAFTS["https://json-schema.org/draft/2020-12/schema"] = jsonschema.Draft202012Validator, _LATEST


@pytest.mark.parametrize("dialect", DRAFTS)
def test_the_formats_that_are_checked_are_listed(dialect: str) -> None:
    """A package that goes missing, or a new one, changes the list: nothing is taken for checked that is not."""
    draft, expected = DRAFTS[dialect]
    assert checked_formats(draft) == expected
    for name in sorted(FORMATS.keys() | {"unheard-of"}):
        validator = schema_validator({"$schema": dialect, "format": name})
        refuses = not all(validator.is_valid(text) for text in FORMATS.get(name, ([], [""]))[1])
        assert refuses == (name in expected), name


def test_every_checked_format_is_tested() -> None:
    assert FORMATS.keys() == checked_formats()


@pytest.mark.parametrize("name", FORMATS)
def test_what_a_format_takes_and_refuses(name: str) -> None:
    takes, refuses = FORMATS[name]
    schema = JSONSchema({"format": name})
    validator, checker = schema_validator(schema.schema), format_checker()
    for text in takes:
        assert validator.is_valid(text), text
    for text in refuses:
        assert not validator.is_valid(text), text
        assert not checker.conforms(text, name)
    for other in (1, None, True, [], {}):
        assert validator.is_valid(other)


@pytest.mark.parametrize(
    "name", ["date", "date-time", "hostname", "ipv4", "ipv6", "time", "uri", "uri-reference", "uuid"]
)
def test_no_format_overlooks_a_newline_at_the_end(name: str) -> None:
    for text in FORMATS[name][0]:
        assert not format_checker().conforms(text + "\n", name), text


# ----------------------------------------------------------------------------------------------------------- patterns


@pytest.mark.parametrize(
    ("pattern", "takes", "refuses"),
    [
        ("b", ["abc", "b"], ["ac", ""]),
        ("^a$", ["a"], ["a\n", "ba"]),
        ('^"$', ['"'], ["", "'"]),
        (r"^[\x20-\x7E]+$", ["a b", '"\\'], ["é", "", "\n"]),
        (r"^\d$", ["7"], ["٣"]),
        (r"^\D$", ["٣", "a"], ["7"]),
        (r"^\w$", ["a", "_"], ["é"]),
        (r"^\W$", ["é"], ["a"]),
        (r"^[\W_]$", ["é", "_"], ["a"]),
        (r"^[\w-.]+$", ["a-.b"], ["a b"]),
        (r"^[\d-x]+$", ["5-x"], ["a"]),
        (r"^[a-\d]+$", ["a-5"], ["b"]),
        (r"^\s$", ["\ufeff", "\xa0", "\u2028", "\u2003", "\v"], ["\x1f", "\x85", "a"]),
        (r"^\S$", ["\x1f", "é"], ["\ufeff", " "]),
        (r"^[^\S]$", [" ", "\ufeff"], ["a"]),
        ("^.$", ["a", "\x85", "😀"], ["\n", "\r", "\u2028"]),
        ("^[^]$", ["\n", "a"], ["", "ab"]),
        ("[]", [], ["", "a"]),
        ("^[^x]$", ["\n"], ["x"]),
        ("^[[a]$", ["[", "a"], ["]"]),
        ("^[&&|~-]+$", ["&|~-"], ["a"]),
        ("^[a^]$", ["^"], ["b"]),
        (r"^[\]\\]$", ["]", "\\"], ["["]),
        (r"^[\b]$", ["\b"], ["b"]),
        (r"\bcat\b", ["a cat", "écaté cat", "écat"], ["cats"]),
        (r"a\Bb", ["ab"], ["a b"]),
        (r"^\u00e9\x41\/\-\t$", ["éA/-\t"], ["eA/-\t"]),
        (r"^\u{1F600}$", ["😀"], ["u"]),
        (r"^\uD83D\uDE00$", ["😀"], [""]),
        (r"^[\uD83D\uDE00-\uD83D\uDE02]$", ["😁"], ["😃"]),
        (r"^\cC\0$", ["\x03\0"], ["cC0"]),
        (r"^\p{Letter}+$", ["éa"], ["1"]),
        (r"^\P{Lu}$", ["a"], ["A"]),
        ("^a{e}$", ["a{e}"], ["a", "b"]),
        ("^a{,2}$", ["a{,2}"], ["aa"]),
        ("^a{2,}$", ["aaa"], ["a"]),
        (r"^(a|b)\1$", ["aa", "bb"], ["ab"]),
        (r"^(?<x>a|b)\k<x>$", ["aa"], ["ab"]),
        ("^(?!ab)a(?=c)", ["ac"], ["ab"]),
        ("(?<!x)a$", ["ya"], ["xa"]),
        ("^[(?<a>{1,2}]+$", ["(?<>{1,2}"], ["b"]),
    ],
)
def test_patterns_are_those_of_ecma(pattern: str, takes: list[str], refuses: list[str]) -> None:
    validator = schema_validator({"pattern": pattern})
    for text in takes:
        assert validator.is_valid(text), in_python(pattern)
    for text in refuses:
        assert not validator.is_valid(text), in_python(pattern)
    keys = schema_validator({"patternProperties": {pattern: False}})
    others = schema_validator({"patternProperties": {pattern: True}, "additionalProperties": False})
    names = schema_validator({"propertyNames": {"pattern": pattern}})
    for text in (*takes, *refuses):
        assert keys.is_valid({text: 1}) == (text in refuses)
        assert others.is_valid({text: 1}) == names.is_valid({text: 1}) == (text in takes)


@pytest.mark.parametrize(
    "pattern", ["a(", "[a", "*a", r"\Z", r"\a", r"^\S(|(.|\n)*\S)\Z", r"\u{110000}", "[b-a]", r"(?<n"]
)
@pytest.mark.parametrize("dialect", DRAFTS)
def test_what_is_no_pattern_is_refused_with_the_schema(dialect: str, pattern: str) -> None:
    for schema in ({"properties": {"k": {"pattern": pattern}}}, {"items": {"patternProperties": {pattern: {}}}}):
        with pytest.raises(ConstraintError, match="pattern"):
            JSONSchema({"$schema": dialect, **schema})
    with pytest.raises(ConstraintError):
        compiled(pattern)


@pytest.mark.parametrize(
    "schema",
    [
        {"pattern": "^(a|aa)+$"},
        {"patternProperties": {"^(a|aa)+$": True}},
        {"patternProperties": {"^(a|aa)+$": True}, "additionalProperties": True},
        {"propertyNames": {"pattern": "^(a|aa)+$"}},
        {"additionalProperties": False, "patternProperties": {"^(a|aa)+$": True}},
        {"unevaluatedProperties": False, "anyOf": [{"patternProperties": {"^(a|aa)+$": True}}]},
    ],
)
def test_every_search_has_a_time_limit(schema: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_patterns, "PATTERN_SECONDS", 0.02)
    text = "a" * 60 + "!"
    assert found("^(a|aa)+$", text) is None
    assert not schema_validator(schema).is_valid(text if "pattern" in schema else {text: 1})
    assert schema_validator(schema).is_valid("a" if "pattern" in schema else {"a": 1})


@pytest.mark.parametrize("dialect", list(DRAFTS)[3:])
def test_unevaluated_properties_are_those_of_the_package(dialect: str) -> None:
    """Where patterns mean the same to both; with every way to evaluate a member. The keywords are those of both drafts.

    The package's own validator of the older draft takes the keywords of an ``additionalProperties`` for names.
    """
    ways: list[dict[str, Any]] = [
        {},
        {"properties": {"a": {"type": "integer"}}},
        {"patternProperties": {"^b": True}},
        {"additionalProperties": {"type": "integer"}},
        {"allOf": [{"properties": {"a": True}}, {"patternProperties": {"c": True}}]},
        {"anyOf": [{"properties": {"a": {"const": 1}}, "required": ["a"]}, {"properties": {"b": True}}]},
        {"oneOf": [{"properties": {"a": {"const": 1}}, "required": ["a"]}, {"properties": {"b": {"const": 1}}}]},
        {"if": {"properties": {"a": {"const": 1}}, "required": ["a"]}, "then": {"properties": {"b": True}}},
        {"if": {"required": ["b"]}, "then": False, "else": {"properties": {"c": True}}},
        {"dependentSchemas": {"a": {"properties": {"b": True}}}},
        {"$ref": "#/$defs/ab"},
        {"allOf": [{"$ref": "#/$defs/ab"}], "properties": {"a": True}},
        {"not": {"properties": {"a": True}, "required": ["a"]}},
        {"allOf": [{"properties": {"a": True}, "unevaluatedProperties": {"type": "string"}}]},
    ]
    values = [
        {key: value for key, value in zip("abc", row, strict=True) if value} for row in product((0, 1, "x"), repeat=3)
    ]
    for way in ways:
        for rest in (False, {"type": "string"}):
            schema = {
                "unevaluatedProperties": rest,
                "$defs": {"ab": {"properties": {"a": True, "b": True}}},
                **way,
            }
            ours, theirs = schema_validator({"$schema": dialect, **schema}), jsonschema.Draft202012Validator(schema)
            for value in values:
                assert ours.is_valid(value) == theirs.is_valid(value), (schema, value)


def test_unevaluated_properties_follow_every_kind_of_reference() -> None:
    old, new = list(DRAFTS)[3:]
    closed = {"unevaluatedProperties": False, "$defs": {"ab": {"$anchor": "x", "properties": {"a": True}}}}
    dynamic = {"unevaluatedProperties": False, "$defs": {"ab": {"$dynamicAnchor": "x", "properties": {"a": True}}}}
    nested = {"$recursiveAnchor": True, "properties": {"a": {"$recursiveRef": "#"}}, "unevaluatedProperties": False}
    for schema in (
        {"$schema": old, "$ref": "#x", **closed},
        {"$schema": new, "$ref": "#x", **closed},
        {"$schema": new, "$dynamicRef": "#x", **dynamic},
        {"$schema": old, **nested},
    ):
        validator = schema_validator(schema)
        assert validator.is_valid({"a": {}})
        assert not validator.is_valid({"b": {}})
    assert not schema_validator({"$schema": old, **nested}).is_valid({"a": {"b": 1}})


def test_unevaluated_properties_read_patterns_as_ecma() -> None:
    validator = schema_validator({"anyOf": [{"patternProperties": {r"^\d$": True}}], "unevaluatedProperties": False})
    assert validator.is_valid({"7": 1})
    assert not validator.is_valid({"٣": 1})
    assert not validator.is_valid({"7\n": 1})
    assert schema_validator({"patternProperties": {"^[^]$": True}, "unevaluatedProperties": False}).is_valid({"\n": 1})
