"""Whether a grammar derives any finite string at all.

An engine masks token by token and never asks. Under ``root ::= "a" root``, or a JSON Schema that requires a reference
to itself, every step looks fine and no sequence can ever end.
"""

from __future__ import annotations

import json

import xgrammar as xgr

# Kinds of expression in xgrammar's serialised grammar that can fail to derive a string. The others (literals, character
# classes, the empty string, free text with tags) always can, and so, to be safe, can any kind not known here.
_RULE, _SEQUENCE, _CHOICES, _REPEAT = 4, 5, 6, 8


def is_productive(grammar: xgr.Grammar) -> bool:
    """False if no finite string can be derived from the root rule.

    The textbook fixed point: a rule is productive once its body can be written with productive rules alone.
    """
    source = json.loads(grammar.serialize_json())
    bounds, flat = source["grammar_expr_indptr"], source["grammar_expr_data"]
    ends = [*bounds[1:], len(flat)]
    expressions = [flat[start:end] for start, end in zip(bounds, ends, strict=False)]
    bodies: list[int] = [rule[1] for rule in source["rules"]]
    rules: set[int] = set()

    def derives(expression: int) -> bool:
        kind, _, *operands = expressions[expression]
        if kind == _RULE:
            return operands[0] in rules
        if kind == _SEQUENCE:
            return all(derives(part) for part in operands)
        if kind == _CHOICES:
            return any(derives(part) for part in operands)
        if kind == _REPEAT:
            rule, least = operands[0], operands[1]
            return least == 0 or rule in rules
        return True

    while source["root_rule_id"] not in rules:
        found = {rule for rule, body in enumerate(bodies) if rule not in rules and derives(body)}
        if not found:
            return False
        rules |= found
    return True
