"""What answers to some of reasoning-gym's tasks must look like as a whole, for their scorers look at less, or do more.

Data only. The audit found each: by an answer that ended the worker, or by a right answer inside of other text.
"""

from __future__ import annotations

import re
from typing import Final

_LISTS: Final = re.compile(r"[\w\s,'\"\[\]-]*")
_FORMULAS: Final = re.compile(
    r"(?:\d+(?:\.\d*)?|\.\d+|\b(?:[A-Za-z]|a?sin|a?cos|a?tan|sinh|cosh|tanh|exp|log|ln|sqrt|pi)\b|[\s+*/^()=|-])*"
)
SHAPES: Final[dict[str, re.Pattern[str]]] = {
    # Their scorers evaluate an answer as Python, or as sympy, which does the same. In these shapes neither a call of
    # anything else nor an attribute can be written.
    "binary_matrix": _LISTS, "game_of_life": _LISTS, "n_queens": _LISTS, "spiral_matrix": _LISTS,
    "string_insertion": _LISTS, "countdown": _FORMULAS, "intermediate_integration": _FORMULAS,
    "polynomial_multiplication": _FORMULAS, "puzzle24": _FORMULAS, "simple_integration": _FORMULAS,
    # Their scorers find a right answer inside of any text.
    "gsm_symbolic": re.compile(r"[\d.,/ $%-]*"),
    "sokoban": re.compile(r"[RLUD]*"),
    "survo": re.compile(r"[\d\s-]*"),
    "kakurasu": re.compile(r"[01\s]*"),
    "knights_knaves": re.compile(r"(?:\w+ is an? \w+(?:, and |, | and )?)+\.?"),
}  # fmt: skip
"""What an answer must look like as a whole before its task's scorer sees it."""
