"""What is kept of an evaluation's answers: one right, one wrong, small, and as it was said."""

from __future__ import annotations

import json

from tests.train.rollouts.test_turns import CharacterTurns, call, played, store_item
from train.domains.base import ErrorClass, Item, Verdict
from train.evaluate import Answer
from train.rollouts.rollout import Span, StopReason
from train.shown_answers import MAX_PROMPT_CHARACTERS, MAX_TURN_CHARACTERS, MAX_TURNS, cut, shown_answers
from train.transcript import Message, Transcript, answered

CODEC = CharacterTurns()
RIGHT, WRONG = Verdict(score=1.0, passed=True), Verdict(score=0.0, passed=False, evidence="it is 3")
UNJUDGED = Verdict(score=0.0, passed=False, error=ErrorClass.TIMED_OUT)


def plain(index: int, said: str, verdict: Verdict) -> Answer:
    item = Item(domain="d", level=0, seed=1, index=index, prompt=f"ask {index}")
    return Answer(item, Span(CODEC.answer(said), None), StopReason.END, answered(said[-1:]), verdict)


def test_one_right_and_one_wrong() -> None:
    """The first of each; one that was judged comes before one that was not; what there is not is left out."""
    answers = [
        plain(0, "a", UNJUDGED),
        plain(1, "b", WRONG),
        plain(2, "work\n1+1\n2", RIGHT),
        plain(3, "c", RIGHT),
    ]
    right, wrong = shown_answers(answers, CODEC.text)
    assert right == {
        "domain": "d",
        "item": "d/0/1-2",
        "prompt": "ask 2",
        "turns": [{"role": "assistant", "text": "work\n1+1\n2", "calls": ""}],
        "num_turns_left_out": 0,
        "stop": "end",
        "score": 1.0,
        "passed": True,
        "evidence": "",
        "error": None,
    }
    assert (wrong["item"], wrong["evidence"], wrong["error"]) == ("d/0/1-1", "it is 3", None)
    [only] = shown_answers(answers[:1], CODEC.text)
    assert only["error"] == "timed_out"
    assert shown_answers([], CODEC.text) == []


def test_episodes_by_turn() -> None:
    """Words and calls of the policy, and what tools told it, in their order."""
    item = store_item()
    episode, _ = played(
        lambda so_far: "It is 1." if "<1>" in so_far else "I look.\n" + call("store_get", key="a"), item
    )
    answer = Answer(item, episode.rollout.spans[-1], episode.rollout.stop, episode.transcript, RIGHT)
    [shown] = shown_answers([answer], CODEC.text)
    assert shown["turns"] == [
        {"role": "assistant", "text": "I look.", "calls": 'store_get({"key": "a"})'},
        {"role": "tool", "text": "1", "calls": ""},
        {"role": "assistant", "text": "It is 1.", "calls": ""},
    ]


def test_it_stays_small() -> None:
    """However long prompts, turns, evidence and episodes are."""
    long = "x" * 100_000
    item = store_item(prompt=long)
    transcript = Transcript(tuple(Message("tool", long) for _ in range(500)))
    answer = Answer(
        item,
        Span(()),
        StopReason.LENGTH,
        transcript,
        Verdict(score=0.0, passed=False, evidence=long),
    )
    [shown] = shown_answers([answer], CODEC.text)
    most = MAX_PROMPT_CHARACTERS + (MAX_TURNS + 1) * MAX_TURN_CHARACTERS
    assert len(json.dumps(shown)) < most + 100 * (MAX_TURNS + 3)
    assert (len(shown["turns"]), shown["num_turns_left_out"]) == (MAX_TURNS, 500 - MAX_TURNS)
    assert cut("abcdefghi", 9) == "abcdefghi"
    assert cut("abcdefghij", 9) == "abcdef … 1 characters … hij"
