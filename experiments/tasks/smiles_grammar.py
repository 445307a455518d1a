"""A grammar of SMILES, and the parts of a SMILES text by name.

It is the context-free part of OpenSMILES (opensmiles.org), for one connected molecule: organic-subset and bracket atoms, bonds,
branches and ring-closure labels. No context-free grammar can pair ring labels or count valences; `smc.SmilesPrefix` does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

ELEMENTS = (  # by atomic number
    "H He Li Be B C N O F Ne Na Mg Al Si P S Cl Ar K Ca Sc Ti V Cr Mn Fe Co Ni Cu Zn Ga Ge As Se Br Kr Rb Sr Y Zr Nb Mo Tc Ru Rh Pd "
    "Ag Cd In Sn Sb Te I Xe Cs Ba La Ce Pr Nd Pm Sm Eu Gd Tb Dy Ho Er Tm Yb Lu Hf Ta W Re Os Ir Pt Au Hg Tl Pb Bi Po At Rn Fr Ra Ac "
    "Th Pa U Np Pu Am Cm Bk Cf Es Fm Md No Lr Rf Db Sg Bh Hs Mt Ds Rg Cn Nh Fl Mc Lv Ts Og"
)
ORGANIC = ("Br", "Cl", "B", "C", "N", "O", "P", "S", "F", "I", "b", "c", "n", "o", "p", "s")
"""Atoms that may stand without brackets, the aromatic ones in lower case."""
AROMATIC = ("as", "se", "b", "c", "n", "o", "p", "s")
"""Aromatic atoms that may stand in brackets."""


def _choice(words: list[str] | tuple[str, ...]) -> str:
    return " | ".join(f'"{word}"' for word in words)


GRAMMAR = rf"""
root ::= atom ring* branch* rest*
rest ::= bond? atom ring* branch*
branch ::= "(" bond? atom ring* branch* rest* ")"
ring ::= bond? (digit | "%" [1-9] digit)
bond ::= "-" | "=" | "#" | "$" | ":" | "/" | "\\"
atom ::= {_choice(ORGANIC)} | bracket
bracket ::= "[" isotope? symbol chiral? hydrogens? charge? "]"
isotope ::= [1-9] digit? digit?
symbol ::= {_choice([*ELEMENTS.split(), *AROMATIC])}
chiral ::= "@" | "@@"
hydrogens ::= "H" [1-9]?
charge ::= ("+" | "-") [1-9]?
digit ::= [0-9]
"""
"""In the dialect of `smc.EBNF`. Neither dots (several molecules), nor wildcards, nor atom classes."""

_PARTS = re.compile(
    r"(?P<bracket>\[[^\]]*\]?)|(?P<atom>Br|Cl|[BCNOPSFIbcnops])|(?P<bond>[-=#$:/\\])|(?P<branch>[()])|(?P<ring>%\d{0,2}|\d)|(?P<other>.)",
    re.DOTALL,
)


def parts(text: str) -> Iterator[tuple[int, str]]:
    """Where each part of `text` begins and what it is: atom, bracket, bond, branch, ring, or other for what is no SMILES."""
    return ((match.start(), str(match.lastgroup)) for match in _PARTS.finditer(text))
