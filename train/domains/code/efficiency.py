"""Functions that must be quick: on large inputs the plain way exceeds its processor time.

Small cases tell whether a function is right, large ones whether it is quick. Large inputs are made again from a seed
when they are needed, and the reference, which is ours, says what is expected. Processor time decides, so that a busy
machine is not the code's fault.
"""

from __future__ import annotations

import random
from typing import Final

from train.domains.base import Item, Verdict
from train.domains.code.composing import Case, loaded
from train.domains.code.judging import Cases, hidden_cases, judge_function, shown_cases
from train.domains.code.problems import PROBLEMS, Problem
from train.domains.task import Task, TaskDomain
from train.sandbox.limits import Limits
from train.transcript import Transcript

LIMITS: Final = Limits(wall_s=12.0, cpu_s=2, max_output_bytes=256 << 10)
NUM_SMALL: Final = 14
NUM_SHOWN: Final = 2
NUM_LARGE: Final = 2
NUM_LEVELS: Final = 3
_BY_NAME: Final = {problem.name: problem for level in PROBLEMS for problem in level}


def _drawn(rng: random.Random, level: int) -> Task:
    problem = rng.choice(PROBLEMS[level])
    k = rng.choice(problem.draws)
    source = problem.source.format(k=k)
    small = _cases(problem, source, rng, [rng.randint(1, 8) * problem.unit for _ in range(NUM_SMALL)])
    return Task(
        f"Write a Python function {problem.name} that {problem.words.format(k=k)}\n"
        f"Examples:\n{shown_cases(problem.name, small[:NUM_SHOWN])}\n"
        f"It must take less than a second for {problem.large.format(size=problem.size)}. Answer with the code only.",
        source,
        {
            "function": problem.name,
            "k": k,
            "seed": rng.getrandbits(32),
            "cases": list(small[NUM_SHOWN:]),
        },
    )


def _cases(problem: Problem, source: str, rng: random.Random, sizes: list[int]) -> list[Case]:
    function = loaded(source, problem.name)
    given = [problem.drawn(rng, size) for size in sizes]
    return [[list(arguments), function(*arguments)] for arguments in given]


def _judged(item: Item, transcript: Transcript) -> Verdict:
    function, k = str(item.data["function"]), item.data["k"]
    problem = _BY_NAME[function]
    rng = random.Random(int(str(item.data["seed"])))
    large = _cases(
        problem, problem.source.format(k=k), rng, [problem.size - place for place in range(NUM_LARGE)]
    )
    cases: Cases = [*hidden_cases(item), *large]
    return judge_function(transcript.answer, function, cases, limits=LIMITS)


DOMAINS: Final = (
    TaskDomain(
        "code_efficiency",
        "Write a function that is right on small inputs and quick on large ones; the plain way runs out of time.",
        _drawn,
        _judged,
        num_levels=NUM_LEVELS,
    ),
)
