"""Regular expressions from words and examples: all hidden texts that fit must match, and no near miss may."""

from __future__ import annotations

import random
import re
from typing import Final

from train.domains.base import Item, Verdict
from train.domains.code.calls import Target, call
from train.domains.code.judging import MODULE, arguments, hidden_cases
from train.domains.code.languages import LANGUAGES
from train.domains.task import Task, TaskDomain
from train.sandbox.limits import Limits
from train.transcript import JsonValue, Transcript
from train.verifiers.answers import final_block

NUM_HIDDEN: Final = 20
"""Of those that fit, and as many near misses."""
NUM_SHOWN: Final = 4
MAX_CHARS: Final = 300
LIMITS: Final = Limits(wall_s=5.0, cpu_s=2)
_FUNCTION: Final = "fits"
_EDITS: Final = 400
_SPECIAL: Final = frozenset(r".^$*+?{}[]\|()")
_SOURCE: Final = """
import re
EXPRESSION = re.compile({pattern!r})
def fits(text):
    return EXPRESSION.fullmatch(text) is not None
"""


def _near_miss(rng: random.Random, text: str, alphabet: str) -> str:
    """The text with one to two letters put in, left out or changed."""
    for _ in range(rng.randint(1, 2)):
        place, letter = rng.randint(0, len(text)), rng.choice(alphabet)
        text = text[:place] + rng.choice((letter, "")) + text[place + rng.randint(0, 1) :]
    return text


def _drawn(rng: random.Random, level: int) -> Task:
    language = LANGUAGES[level](rng)
    reference = re.compile(language.pattern)
    fitting = list(dict.fromkeys(language.drawn(rng) for _ in range(_EDITS)))[: NUM_HIDDEN + NUM_SHOWN]
    edited = (_near_miss(rng, rng.choice(fitting), language.alphabet) for _ in range(_EDITS))
    missing = list(dict.fromkeys(text for text in edited if not reference.fullmatch(text)))[
        : NUM_HIDDEN + NUM_SHOWN
    ]
    assert all(reference.fullmatch(text) for text in fitting)
    shown = [*zip(fitting[:NUM_SHOWN], ["matches"] * NUM_SHOWN, strict=False)]
    shown += [*zip(missing[:NUM_SHOWN], ["does not match"] * NUM_SHOWN, strict=False)]
    examples = "\n".join(f"{text!r} {what}" for text, what in shown)
    cases: list[JsonValue] = [[[text], True] for text in fitting[NUM_SHOWN:]]
    cases += [[[text], False] for text in missing[NUM_SHOWN:]]
    return Task(
        f"Write a regular expression (Python's) that matches these texts as a whole and no others: {language.words}.\n"
        f"{examples}\nAnswer with the expression only, on one line.",
        language.pattern,
        {"cases": cases},
    )


def _judged(item: Item, transcript: Transcript) -> Verdict:
    lines = final_block(transcript.answer).strip().splitlines()
    pattern = lines[-1].strip() if lines else ""
    pattern = pattern[1:-1] if pattern[:1] == pattern[-1:] == "`" else pattern
    if not 0 < len(pattern) <= MAX_CHARS:
        return Verdict(score=0.0, passed=False, evidence="no expression, or one that is too long")
    if not _SPECIAL & set(pattern):
        return Verdict(score=0.0, passed=False, evidence=f"it matches {pattern[:60]!r} and nothing else")
    source = _SOURCE.format(pattern=pattern)
    cases = hidden_cases(item)
    [calls] = call({f"{MODULE}.py": source}, [Target(MODULE, _FUNCTION, arguments(cases))], LIMITS)
    if calls.failure:
        return Verdict(score=0.0, passed=False, evidence=calls.failure[-200:])
    for case, result in zip(cases, calls.results, strict=True):
        if result.value is not case[1]:
            said = "matches" if result.value else "does not match"
            return Verdict(
                score=0.0, passed=False, evidence=f"it {said} {arguments([case])[0][0]!r}, which is wrong"
            )
    return Verdict(score=1.0, passed=True)


DOMAINS: Final = (
    TaskDomain(
        "code_regex",
        "Write a regular expression from words and examples; hidden texts and near misses, in a sandbox, decide.",
        _drawn,
        _judged,
    ),
)
