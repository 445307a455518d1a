"""What is wrong with a grammar before a run finds out: it is said at compile time, with the name of the rule."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType

from smc.constraints.coverage import Coverage
from smc.constraints.notes import LanguageNote
from smc.constraints.productivity import CHARACTERS, LITERAL, TOKENS, Rules, circular, culprits, owners, productive
from smc.errors import ConstraintError, EmptyLanguageError
from smc.vocabulary import Vocabulary

NO_NAMES: Mapping[str, str] = MappingProxyType({})
"""Of a language in which the user names no rules."""

_SHOWN = 3
"""How many rules or characters a message names."""


def check_grammar(
    rules: Rules, what: str, vocabulary: Vocabulary, written: Mapping[str, str] = NO_NAMES
) -> tuple[LanguageNote, ...]:
    """Refuse a grammar that can run into a part without an end, or into one that the vocabulary cannot spell.

    Args:
        rules: the grammar, as the engine reads it.
        what: names it in errors.
        vocabulary: the model's tokens.
        written: the user's name of each rule of the user's text, by the name that the engine has for it. Every rule that
            can be reached must be productive. If there are none (a regex, a schema), only the language as a whole must be.

    Returns:
        What the vocabulary cannot spell although the rest of its rule can be: alternatives that are left out.

    Raises:
        EmptyLanguageError: no finite text, or none that the vocabulary can spell.
        ConstraintError: a rule that can be reached and never completed, or that the vocabulary cannot spell.
    """
    owner = owners(rules, written)
    _refuse_endless(rules, owner, what, bool(written))
    return _refuse_unspelled(rules, owner, what, written, Coverage.of(vocabulary))


def refuse_circular(rules: Rules, what: str, written: Mapping[str, str] = NO_NAMES) -> None:
    """Refuse rules that are nothing but repetitions of themselves, such as ``x ::= x{0,2}``: xgrammar does not survive them.

    Raises:
        ConstraintError: there are such rules.
    """
    if found := circular(rules):
        names = _names({rule: written.get(rules.names[rule], rules.names[rule]) for rule in found}, found)
        raise ConstraintError(
            f"{what} has a part that is nothing but a repetition of itself ({names}), which the engine cannot read: give it another "
            "part, or remove it."
        )


def _refuse_endless(rules: Rules, owner: dict[int, str], what: str, named: bool) -> None:
    dead = owner.keys() - productive(rules)
    if not dead or not (named or rules.root in dead):
        return
    culprit = _names(owner, culprits(rules, dead)) if named else ""
    if rules.root in dead:
        raise EmptyLanguageError(
            f"{what} describes no finite text: every way through it leads back into itself{culprit and f' ({culprit})'}. "
            "Give the recursion a way to end (an alternative, an optional part or a nullable field)."
        )
    raise ConstraintError(
        f"{what} has a part that can never be completed ({culprit}): every way through it leads back into itself or into "
        "an empty class, so that a text which enters it is lost. Give it a way to end, or remove it. With check=False "
        "the grammar runs as it is, and such texts are counted as dead or censored."
    )


def _refuse_unspelled(
    rules: Rules, owner: dict[int, str], what: str, written: Mapping[str, str], coverage: Coverage
) -> tuple[LanguageNote, ...]:
    missing = {
        rule: found
        for rule in owner
        if (found := [_unspelled(*leaf, coverage) for leaf in rules.leaves(rule) if not coverage.spells(*leaf)])
    }
    if not missing:
        return ()
    dead = owner.keys() - productive(rules, coverage.spells)
    blamed = [rule for rule in missing if rule in dead] or list(missing)
    needs = ", ".join(dict.fromkeys(text for rule in blamed for text in missing[rule][:_SHOWN]))
    place = f" ({_names(owner, blamed)})" if written else ""
    if rules.root in dead:
        raise EmptyLanguageError(
            f"{what} describes no text that the model's vocabulary can spell: it needs {needs}{place}. Use a model with "
            "these characters, or write the grammar without them."
        )
    if any(rules.names[rule] in written for rule in dead):
        raise ConstraintError(
            f"{what} has a part that the model's vocabulary cannot spell: it needs {needs}{place}, so that a text which "
            "enters it is lost. Remove that part, or use another model. With check=False the grammar runs as it is, and such "
            "texts are counted as dead."
        )
    lost = f"alternatives that the model's vocabulary cannot spell, for want of {needs}"
    return (LanguageNote("narrower", place.strip(" ()"), "vocabulary", lost),)


def _unspelled(kind: int, operands: Sequence[int], coverage: Coverage) -> str:
    """What a leaf needs and the vocabulary has not."""
    if kind == TOKENS:
        return f"token {operands[0]}, a stop or special token, which no mask allows as text"
    if kind == LITERAL:
        text = bytes(operands).decode("utf-8", "replace")
        lost = [char for char in text if not coverage.octets.issuperset(char.encode())]
        return ", ".join(f"{char!r} (U+{ord(char):04X})" for char in dict.fromkeys(lost[:_SHOWN]))
    if kind == CHARACTERS and operands[0] == 0 and len(operands) > 1:
        low = operands[1]
        return f"a character such as {chr(low)!r} (U+{low:04X})"
    return "a character of a class"


def _names(owner: dict[int, str], rules: Collection[int]) -> str:
    names = list(dict.fromkeys(owner[rule] for rule in rules))
    listed = ", ".join(map(repr, names[:_SHOWN])) + (" and others" if len(names) > _SHOWN else "")
    return f"rule {listed}" if len(names) == 1 else f"rules {listed}"
