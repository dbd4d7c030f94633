"""Problems whose plain solution is too slow: in words, solved well, and as a draw of inputs of any size."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from train.transcript import JsonValue


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem; `{k}` in its words and source is a number that is drawn."""

    name: str
    words: str
    source: str
    drawn: Callable[[random.Random, int], tuple[JsonValue, ...]]
    """Arguments of a size."""
    size: int
    """Of the large inputs."""
    draws: tuple[int, ...] = (0,)
    """What `{k}` may be."""
    large: str = "a list of {size} numbers"
    """A large input in words."""
    unit: int = 1
    """Small sizes are multiples of it."""


def _number(rng: random.Random, size: int) -> tuple[JsonValue, ...]:
    return (size if size > 100 else rng.randint(0, 3 * size),)


def _narrow(rng: random.Random, size: int) -> tuple[JsonValue, ...]:
    return (
        [rng.randint(-6, 9) for _ in range(size)] if size < 100 else rng.choices(range(-900, 1000), k=size),
    )


def _wide(rng: random.Random, size: int) -> tuple[JsonValue, ...]:
    return (rng.choices(range(10), k=size) if size < 100 else rng.choices(range(10**6), k=size),)


def _ranges(rng: random.Random, size: int) -> tuple[JsonValue, ...]:
    values: list[JsonValue] = list(rng.choices(range(-50, 100), k=size))
    spans: list[JsonValue] = [
        list[JsonValue](sorted(rng.choices(range(size + 1), k=2))) for _ in range(max(1, size // 2))
    ]
    return values, spans


def _ascending(rng: random.Random, size: int) -> tuple[JsonValue, ...]:
    """A row that holds few equal neighbours for long: the plain way looks far from every place."""
    period = max(2, size // 3)
    order = rng.sample(range(period), period)
    return ([order[place % period] for place in range(size)],)


FIBONACCI: Final = """def fibonacci(n):
    a, b = 0, 1
    for _ in range(n):
        a, b = b, (a + b) % {k}
    return a % {k}"""
WAYS: Final = """def ways(n):
    found = [1] + [0] * n
    for i in range(1, n + 1):
        found[i] = (found[i - 1] + (found[i - {k}] if i >= {k} else 0)) % 1000007
    return found[n]"""
PRIMES: Final = """def primes(n):
    is_prime = bytearray([0, 0]) + bytearray([1]) * max(0, n - 1)
    for i in range(2, int(n**0.5) + 1):
        if is_prime[i]:
            is_prime[i * i : n + 1 : i] = bytes(len(range(i * i, n + 1, i)))
    return sum(is_prime[1 : n + 1 : {k}])"""
PAIRS: Final = """def pairs(values):
    seen, count = {{}}, 0
    for v in values:
        count += seen.get({k} - v, 0)
        seen[v] = seen.get(v, 0) + 1
    return count"""
LARGEST_SUM: Final = """def largest_sum(values):
    best = current = values[0]
    for v in values[1:]:
        current = max(v, current + v)
        best = max(best, current)
    return best * {k}"""
RANGE_SUMS: Final = """def range_sums(values, spans):
    sums = [0]
    for v in values:
        sums.append(sums[-1] + v)
    return sum(1 for a, b in spans if (sums[b] - sums[a]) % {k} == 0)"""
INVERSIONS: Final = """def inversions(values):
    def count(part):
        if len(part) < 2:
            return part, 0
        middle = len(part) // 2
        left, a = count(part[:middle])
        right, b = count(part[middle:])
        merged, i, total = [], 0, a + b
        for v in right:
            while i < len(left) and left[i] <= v:
                merged.append(left[i])
                i += 1
            total += len(left) - i
            merged.append(v)
        return merged + left[i:], total
    return count(values)[1] % {k}"""
RISING: Final = """def rising(values):
    from bisect import bisect_left
    ends = []
    for v in values:
        place = bisect_left(ends, v)
        ends[place : place + 1] = [v]
    return len(ends) * {k}"""
DISTINCT_RUN: Final = """def distinct_run(values):
    last, start, best = {{}}, 0, 0
    for i, v in enumerate(values):
        start = max(start, last.get(v, -1) + 1)
        last[v] = i
        best = max(best, i - start + 1)
    return best * {k}"""
_MODULI: Final = (97, 101, 997, 1009, 10007)
_FACTORS: Final = (2, 3, 5, 7)

PROBLEMS: Final[tuple[tuple[Problem, ...], ...]] = (
    (
        Problem(
            "fibonacci",
            "takes n and returns the n-th Fibonacci number modulo {k} (number 0 is 0, number 1 is 1).",
            FIBONACCI, _number, 100_000, _MODULI, "n = {size}",
        ),
        Problem(
            "ways",
            "takes n and returns in how many ways one can climb n stairs with steps of 1 or {k} stairs, modulo 1000007 "
            "(the order matters; there is one way for 0).",
            WAYS, _number, 100_000, (2, 3, 4, 5), "n = {size}",
        ),
        Problem(
            "primes",
            "takes n and returns how many primes p with p <= n leave the remainder 1 when divided by {k}.",
            PRIMES, _number, 500_000, (3, 4, 5, 6), "n = {size}", 4,
        ),
    ),
    (
        Problem(
            "pairs",
            "takes a list of integers and returns how many pairs of places i < j hold two numbers whose sum is {k}.",
            PAIRS, _narrow, 20_000, (0, 2, 3, 5, 7),
        ),
        Problem(
            "largest_sum",
            "takes a list of integers, at least one, and returns {k} times the largest sum of one or more neighbours.",
            LARGEST_SUM, _narrow, 20_000, _FACTORS,
        ),
        Problem(
            "range_sums",
            "takes a list of integers and a list of pairs [a, b] and returns for how many of the pairs "
            "the sum of values[a:b] is divisible by {k}.",
            RANGE_SUMS, _ranges, 80_000, (2, 3, 5, 7), "a list of {size} numbers and half as many pairs",
        ),
    ),
    (
        Problem(
            "inversions",
            "takes a list of integers and returns, modulo {k}, "
            "how many pairs of places i < j hold a larger number at i than at j.",
            INVERSIONS, _wide, 20_000, (97, 997, 10007),
        ),
        Problem(
            "rising",
            "takes a list of integers and returns {k} times the length of its longest strictly rising subsequence "
            "(its members need not be neighbours).",
            RISING, _wide, 20_000, _FACTORS,
        ),
        Problem(
            "distinct_run",
            "takes a list of integers and returns {k} times the length of the longest run of neighbours "
            "in which no number occurs twice.",
            DISTINCT_RUN, _ascending, 20_000, _FACTORS,
        ),
    ),
)  # fmt: skip
"""By level."""
