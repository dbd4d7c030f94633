"""Some answers of an evaluation as they were given, for people: of each domain a right one and a wrong one.

They are kept beside a run's metrics, of the last evaluation alone. Texts are cut in the middle and long episodes at
their end, so that a run over a hundred domains stays small.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from train.evaluate import Answer
from train.transcript import Message

MAX_PROMPT_CHARACTERS: Final = 1200
MAX_TURN_CHARACTERS: Final = 600
"""Of what was said, each call and each result included; of evidence, too."""
MAX_TURNS: Final = 16
"""Of an episode: words of the policy and results of tools."""


def shown_answers(answers: Sequence[Answer], said: Callable[[Sequence[int]], str]) -> list[dict[str, Any]]:
    """The first that passed and the first that did not, as JSON; those that there are.

    Args:
        answers: of one domain.
        said: the text of an answer's tokens, its mode and work included.
    """
    right = [answer for answer in answers if answer.verdict.passed]
    wrong = [answer for answer in answers if not answer.verdict.passed]
    # one that was judged tells more than one whose verifier failed
    wrong.sort(key=lambda answer: answer.verdict.error is not None)
    return [_shown(answer, said) for answer in (*right[:1], *wrong[:1])]


def _shown(answer: Answer, said: Callable[[Sequence[int]], str]) -> dict[str, Any]:
    verdict = answer.verdict
    messages: Sequence[Message] = answer.transcript.messages
    if answer.item.environment is None:
        messages = (Message("assistant", said(answer.span.token_ids)),)
    return {
        "domain": answer.item.domain,
        "item": answer.item.id,
        "prompt": cut(answer.item.prompt, MAX_PROMPT_CHARACTERS),
        "turns": [_turn(message) for message in messages[:MAX_TURNS]],
        "num_turns_left_out": max(0, len(messages) - MAX_TURNS),
        "stop": answer.stop.value,
        "score": verdict.score,
        "passed": verdict.passed,
        "evidence": cut(verdict.evidence, MAX_TURN_CHARACTERS),
        "error": None if verdict.error is None else verdict.error.value,
    }


def _turn(message: Message) -> dict[str, Any]:
    calls = "\n".join(f"{call.name}({call.arguments})" for call in message.calls)
    return {
        "role": message.role,
        "text": cut(message.text, MAX_TURN_CHARACTERS),
        "calls": cut(calls, MAX_TURN_CHARACTERS),
    }


def cut(text: str, most: int) -> str:
    """The text, or its beginning and its end with what is left out between them in their number."""
    if len(text) <= most:
        return text
    head, tail = most * 2 // 3, most // 3
    return f"{text[:head]} … {len(text) - head - tail:,} characters … {text[-tail:]}"
