"""A pattern's tree, written for the engines and for the validator.

What no automaton can do becomes wider and is noted, for the validator to repair: assertions inside the pattern (lookaround,
word boundaries, ``^`` and ``$`` not at the ends) hold everywhere, a back-reference matches whatever its group can, a
condition goes either way, and atomic groups and possessive repetitions give back.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from smc.constraints.character_sets import either_case
from smc.constraints.notes import LanguageNote
from smc.constraints.python_regex import NO_FLAGS, Unreadable, parse
from smc.constraints.regex_tree import (
    EMPTY,
    Alt,
    Atomic,
    Boundary,
    Chars,
    Condition,
    Group,
    Look,
    Mark,
    Reference,
    Repeat,
    Seq,
    Tree,
    either,
    possible,
    sequence,
    spelled,
    widths,
)
from smc.errors import ConstraintError

_LONGEST_COPY = 20_000
"""How many characters and classes a group may have that a back-reference repeats."""


@dataclass(frozen=True)
class Respelled:
    """A pattern for the engines and one for the validator.

    Attributes:
        tree: a regular tree; it matches at least what the pattern does.
        validator: the pattern for the `regex` package, in a spelling that depends on no flags and no tables.
        notes: where `tree` matches more than the pattern.
    """

    tree: Tree
    validator: str
    notes: tuple[LanguageNote, ...]


def respell(pattern: str, what: str, flags: frozenset[str] = NO_FLAGS) -> Respelled:
    """Respell a pattern in Python's dialect (see `python_regex`).

    Args:
        pattern: the regex.
        what: names it in errors.
        flags: letters of ``python_regex.FLAGS``.

    Raises:
        ConstraintError: a part that is not understood; the message names it and its place.
    """
    try:
        tree = parse(pattern, flags)
    except Unreadable as error:
        raise ConstraintError(f"{what} {error}. Correct it, or leave that part out.") from None
    widener = _Widener(what)
    return Respelled(possible(widener.regular(tree)), for_validator(tree), tuple(widener.notes))


@dataclass
class _Widener:
    """Makes a tree regular."""

    what: str
    notes: list[LanguageNote] = field(default_factory=list)
    groups: dict[int, tuple[Tree, int]] = field(default_factory=dict)  # the tree of each closed group, and its size
    size: int = 0  # of all that was written so far, copies of groups included

    def regular(self, tree: Tree, first: bool = True, last: bool = True) -> Tree:
        """A regular tree that matches at least the same.

        Args:
            first, last: whether the tree begins where the text does, and ends where it does.
        """
        if isinstance(tree, Chars):
            self.size += 1
            return tree
        if isinstance(tree, Seq):
            return self._sequence(tree, first, last)
        if isinstance(tree, Alt):
            return either(self.regular(option, first, last) for option in tree.options)
        if isinstance(tree, Repeat):
            once = tree.most is not None and tree.most <= 1
            item = self.regular(tree.item, first and once, last and once)
            if tree.mode == "+":
                self._wider(tree.mark, "a possessive repetition gives back what it matched")
            return Repeat(item, tree.least, tree.most)
        if isinstance(tree, Group):
            before = self.size
            item = self.regular(tree.item, first, last)
            self.groups[tree.number] = item, self.size - before
            return item
        if isinstance(tree, Reference):
            return self._copy(tree)
        if isinstance(tree, Condition):
            ways = [self.regular(way, first, last) for way in (tree.yes, tree.no)]
            self._wider(tree.mark, "a condition goes either way")
            return either(ways)
        if isinstance(tree, Atomic):
            item = self.regular(tree.item, first, last)
            self._wider(tree.mark, "an atomic group gives back what it matched")
            return item
        if isinstance(tree, Look):
            known = len(self.notes)
            self.regular(tree.item, False, False)  # for the groups in it
            del self.notes[known:]
            self._wider(tree.mark, "a lookaround holds everywhere for the mask")
        elif isinstance(tree, Boundary):
            self._wider(tree.mark, "a word boundary holds everywhere for the mask")
        elif not (first if tree.start else last):
            self._wider(tree.mark, "an anchor inside the pattern holds everywhere for the mask")
        return EMPTY

    def _sequence(self, tree: Seq, first: bool, last: bool) -> Tree:
        wide = [i for i, item in enumerate(tree.items) if widths(item)[1] != 0]
        begin, end = (wide[0], wide[-1]) if wide else (len(tree.items), -1)
        return sequence(
            self.regular(item, first and i <= begin, last and i >= end) for i, item in enumerate(tree.items)
        )

    def _copy(self, tree: Reference) -> Tree:
        copied, size = self.groups[tree.number]
        if size > _LONGEST_COPY:  # references to groups with references double it each time
            raise ConstraintError(
                f"{self.what} uses {tree.mark.text} at character {tree.mark.at} for too large a group: write it out."
            )
        self.size += size
        self._wider(tree.mark, "whatever the group can match, not only what it did match")
        return _in_either_case(copied) if tree.ignore_case else copied

    def _wider(self, mark: Mark, what: str) -> None:
        self.notes.append(LanguageNote("wider", f"character {mark.at}", mark.text, what))


def _in_either_case(tree: Tree) -> Tree:
    if isinstance(tree, Chars):
        return Chars(either_case(tree.ranges))
    if isinstance(tree, Repeat):
        return Repeat(_in_either_case(tree.item), tree.least, tree.most)
    if isinstance(tree, Alt):
        return either(map(_in_either_case, tree.options))
    assert isinstance(tree, Seq), tree
    return sequence(map(_in_either_case, tree.items))


def for_validator(tree: Tree) -> str:
    """A tree in the syntax of the `regex` package."""
    if isinstance(tree, Chars):
        return spelled(tree)
    if isinstance(tree, Seq):
        return "".join(map(for_validator, tree.items))
    if isinstance(tree, Alt):
        return f"(?:{'|'.join(map(for_validator, tree.options))})"
    if isinstance(tree, Repeat):
        most = "" if tree.most is None else tree.most
        return f"(?:{for_validator(tree.item)}){{{tree.least},{most}}}{tree.mode}"
    if isinstance(tree, Group):
        return f"({for_validator(tree.item)})"
    if isinstance(tree, Reference):
        return rf"(?i:\{tree.number})" if tree.ignore_case else rf"(?:\{tree.number})"
    if isinstance(tree, Condition):
        return f"(?({tree.number}){for_validator(tree.yes)}|{for_validator(tree.no)})"
    if isinstance(tree, Look):
        return f"(?{'' if tree.ahead else '<'}{'!' if tree.negative else '='}{for_validator(tree.item)})"
    if isinstance(tree, Atomic):
        return f"(?>{for_validator(tree.item)})"
    if isinstance(tree, Boundary):
        return _boundary(tree)
    return _ANCHORS[tree.start, tree.of]


_ANCHORS = {
    (True, "text"): r"\A",
    (True, "line"): r"(?:\A|(?<=\n))",
    (False, "text"): r"\Z",
    (False, "line"): r"(?:(?=\n)|\Z)",
    (False, "last line"): r"(?=\n?\Z)",
}


def _boundary(tree: Boundary) -> str:
    word = spelled(Chars(tree.word))
    if not tree.inside:
        return f"(?:(?<={word})(?!{word})|(?<!{word})(?={word}))"
    neither = f"(?<!{word})(?!{word})" + ("" if tree.holds_in_nothing else r"(?!\A\Z)")
    return f"(?:(?<={word})(?={word})|{neither})"
