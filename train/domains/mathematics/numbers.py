"""Arithmetic of fractions, remainders, divisors and chances: answers are numbers, compared exactly."""

from __future__ import annotations

import random
from fractions import Fraction
from math import comb, gcd, lcm
from typing import Final

from train.domains.mathematics.forms import Form
from train.domains.mathematics.problem import mathematics, problem
from train.domains.task import Task

_LOWEST: Final = "Answer with a whole number or a fraction in lowest terms."
_NUMBER: Final = "Answer with the number only."


def _fractions(rng: random.Random, level: int) -> Task:
    """Two to four fractions under the four operations, from left to right as they bind."""
    bound = 9 + 3 * level
    parts = [Fraction(rng.randint(1, bound), rng.randint(2, bound)) for _ in range(2 + (level + 1) // 2)]
    total, term, text = Fraction(0), parts[0], str(parts[0])
    for part in parts[1:]:
        sign = rng.choice("+-" if level == 0 else "+-*/")
        text += f" {sign} ({part})" if "/" in str(part) else f" {sign} {part}"
        if sign in "+-":
            total, term = total + term, part if sign == "+" else -part
        else:
            term = term * part if sign == "*" else term / part
    first = str(parts[0])
    text = f"({first}){text[len(first) :]}" if "/" in first else text
    return problem(f"Compute {text}\n{_LOWEST}", str(total + term), Form.LOWEST)


def _modular(rng: random.Random, level: int) -> Task:
    """A remainder, one of a product, of a power, and an inverse."""
    modulus = rng.randint(7, 20 * (level + 1))
    if level == 0:
        number = rng.randint(modulus, 20 * modulus)
        task, value = f"{number} divided by {modulus}", number % modulus
    elif level == 1:
        one, other = rng.randint(10, 99), rng.randint(10, 99)
        task, value = f"{one} * {other} divided by {modulus}", one * other % modulus
    elif level == 2:
        base, power = rng.randint(2, modulus), rng.randint(5, 60)
        task, value = f"{base}^{power} divided by {modulus}", pow(base, power, modulus)
    else:
        number = rng.randint(2, modulus - 1)
        while gcd(number, modulus) != 1:
            number = rng.randint(2, modulus - 1)
        text = f"Find the number between 1 and {modulus - 1} that gives 1 modulo {modulus} when multiplied by {number}."
        return problem(f"{text}\n{_NUMBER}", str(pow(number, -1, modulus)), Form.NUMBER)
    return problem(f"What is the remainder of {task}?\n{_NUMBER}", str(value), Form.NUMBER)


def _divisors(rng: random.Random, level: int) -> Task:
    """Greatest common divisors, least common multiples, counts and sums of divisors."""
    if level < 2:
        shared = rng.randint(2, 12 * (level + 1))
        one, other = (shared * rng.randint(2, 9 + 6 * level) for _ in range(2))
        if rng.random() < 0.5:
            return problem(
                f"What is the greatest common divisor of {one} and {other}?\n{_NUMBER}",
                str(gcd(one, other)),
                Form.NUMBER,
            )
        return problem(
            f"What is the least common multiple of {one} and {other}?\n{_NUMBER}",
            str(lcm(one, other)),
            Form.NUMBER,
        )
    number = rng.randint(12, 200) if level == 2 else rng.randint(200, 2000)
    found = [divisor for divisor in range(1, number + 1) if number % divisor == 0]
    if rng.random() < 0.5:
        return problem(
            f"How many positive divisors does {number} have?\n{_NUMBER}", str(len(found)), Form.NUMBER
        )
    return problem(
        f"What is the sum of all positive divisors of {number}?\n{_NUMBER}", str(sum(found)), Form.NUMBER
    )


def _probability(rng: random.Random, level: int) -> Task:
    """Balls drawn without replacement, one at first, then several of given colours."""
    red, blue = rng.randint(2, 25 - 4 * level), rng.randint(2, 25 - 4 * level)
    colour, other = rng.sample(("red", "blue", "white", "black"), 2)
    green = rng.randint(1, 6) if level >= 2 else 0
    total = red + blue + green
    drawn = min(1 + level, red + blue)
    wanted = 1 if level == 0 else rng.randint(max(0, drawn - blue - green), min(drawn, red))
    chance = Fraction(comb(red, wanted) * comb(blue + green, drawn - wanted), comb(total, drawn))
    balls = (
        f"{red} {colour} and {blue} {other}"
        if not green
        else f"{red} {colour}, {blue} {other} and {green} green"
    )
    asked = (
        f"it is {colour}"
        if level == 0
        else f"exactly {wanted} of them {'is' if wanted == 1 else 'are'} {colour}"
    )
    many = "One ball is" if drawn == 1 else f"{drawn} balls are"
    return problem(
        f"A bag holds {balls} balls. {many} drawn at random, without putting any back. "
        f"What is the probability that {asked}?\n{_LOWEST}",
        str(chance),
        Form.LOWEST,
    )


def _sums(rng: random.Random, level: int) -> Task:
    """Arithmetic and geometric sequences: a term, then the sum of many."""
    first, step, count = rng.randint(-30, 30), rng.randint(2, 15), rng.randint(5, 14 + 8 * level)
    if level % 2 == 0:
        shown = ", ".join(str(first + step * place) for place in range(4))
        value = first + step * (count - 1) if level == 0 else count * (2 * first + step * (count - 1)) // 2
    else:
        first, step, count = first or 1, rng.randint(2, 5), rng.randint(5, 6 + level)
        shown = ", ".join(str(first * step**place) for place in range(4))
        value = first * step ** (count - 1) if level == 1 else first * (step**count - 1) // (step - 1)
    asked = f"What is term number {count}" if level < 2 else f"What is the sum of the first {count} terms"
    return problem(
        f"A sequence begins {shown}, and goes on like that. {asked}?\n{_NUMBER}", str(value), Form.NUMBER
    )


DOMAINS: Final = (
    mathematics("math_fractions", "Compute with fractions; the exact value in lowest terms.", _fractions),
    mathematics("math_modular", "Find a remainder or an inverse; the number exactly.", _modular),
    mathematics("math_divisors", "Find divisors and multiples; the number exactly.", _divisors),
    mathematics("math_probability", "Find the chance of a draw; the exact fraction.", _probability),
    mathematics("math_sequences", "Find a term or a sum of a sequence; the number exactly.", _sums),
)
