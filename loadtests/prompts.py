"""Prompts of a set length for load: some plain, some that look hard, so that a router has a choice."""

from __future__ import annotations

import random

import orjson

_PLAIN = (
    "Tell me about the weather in spring.",
    "Say hello to my friend and wish her a good day.",
    "What is a nice name for a small brown dog?",
    "Give me a short line for a birthday card.",
    "Which fruit would you put in a salad?",
)
_HARD = (
    "Prove that the sum of the first n odd numbers is n², then generalise the argument to cubes.",
    "Given f(x) = 3x³ − 5x + 7, find every x with f'(x) = 31 and justify each step.",
    "Write a Python function that merges k sorted lists in O(n log k) and explain its invariants.",
    "Compare the two contracts clause by clause and list each contradiction with its consequence.",
    "A train leaves at 08:40 at 72 km/h, another at 09:05 at 95 km/h; when and where do they meet?",
)


def render_prompts(*, num_prompts: int, num_chars: int, seed: int) -> tuple[str, ...]:
    """So many different prompts of exactly `num_chars` characters, plain and hard in turn."""
    rng = random.Random(seed)
    return tuple(_render(_HARD if index % 2 else _PLAIN, num_chars, rng) for index in range(num_prompts))


def chat_body(prompt: str, *, model: str, max_tokens: int, is_streaming: bool) -> bytes:
    """A chat request for one prompt."""
    body = {"model": model, "messages": [{"role": "user", "content": prompt}], "max_tokens": max_tokens}
    return orjson.dumps(body | {"stream": True} if is_streaming else body)


def _render(sentences: tuple[str, ...], num_chars: int, rng: random.Random) -> str:
    text = f"[{rng.randrange(10**6):06}] "  # so that no two are the same from the start
    while len(text) < num_chars:
        text += rng.choice(sentences) + " "
    return text[:num_chars]
