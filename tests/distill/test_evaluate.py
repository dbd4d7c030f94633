"""A candidate and its teacher answer the same items: what is compared, and by which words it is opened."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean

import pytest
import torch

from distill.dossier import Dossier
from distill.evaluate import compare
from distill.publish import metrics_of
from distill.questions import Questions
from distill.subject import Subject
from tests.train.rollouts.test_turns_in_chat import chat
from train.codec import ChatCodec
from train.domains.audit import audited
from train.evaluate import held_out
from train.recipe import DomainSettings
from train.rollouts.rollout import SampleRequest, Sampling, Span, StopReason
from train.run_directory import RunError
from train.verifiers.pool import Pool

torch.set_num_threads(1)
SUM = re.compile(r"(\d+)\+(\d+)=")
ADDITION = DomainSettings(name="terse_addition", levels=(0, 1))


class Adder:
    """A `Sampler` that adds where it can."""

    policy_version = 0

    def __init__(self, codec: ChatCodec, can: Callable[[int, int], bool]) -> None:
        self._codec = codec
        self._can = can
        self.limits: list[int] = []

    def sample(
        self, requests: Sequence[SampleRequest], sampling: Sampling
    ) -> list[list[tuple[Span, StopReason]]]:
        return [[self._answer(request, sampling, seed) for seed in request.seeds] for request in requests]

    def _answer(self, request: SampleRequest, sampling: Sampling, seed: int) -> tuple[Span, StopReason]:
        self.limits.append(request.limit(sampling))
        found = SUM.search(self._codec.text(request.token_ids))
        assert found is not None
        left, right = int(found[1]), int(found[2])
        # at temperature 1 every other draw is right, whatever it can
        is_right = self._can(left, right) if sampling.temperature == 0 else bool(seed % 2)
        tokens = self._codec.answer(str(left + right) if is_right else "no")
        return Span(tokens, (-0.1,) * len(tokens), 0), StopReason.END


def subject(name: str, codec: ChatCodec, place: Path, can: Callable[[int, int], bool]) -> Subject:
    return Subject(name, "0" * 64, place, Adder(codec, can), None)


def test_both_are_asked_the_same(tmp_path: Path) -> None:
    """A teacher that always adds and a candidate that adds even sums: what is kept is the share of even sums among the
    held-out items, and the answers' lengths are theirs."""
    codec = chat(tmp_path)
    candidate = subject("even", codec, tmp_path, lambda left, right: (left + right) % 2 == 0)
    teacher = subject("all", codec, tmp_path, lambda left, right: True)
    with Pool(1) as pool:
        found = compare(candidate, teacher, Questions(domains=[ADDITION], num_items=12), pool)
    (domain,) = audited([ADDITION.name])
    sums = [SUM.search(item.prompt) for item in held_out(domain, (0, 1), 12)]
    share = fmean(each is not None and (int(each[1]) + int(each[2])) % 2 == 0 for each in sums)
    assert 0 < share < 1
    assert found.teacher.score.value == 1
    assert found.candidate.score.value == pytest.approx(share)
    assert found.kept.retention is not None
    assert found.kept.retention.value == pytest.approx(share)
    assert found.kept.retention.low < share < found.kept.retention.high
    assert found.kept.differences[ADDITION.name].value == pytest.approx(share - 1)
    assert found.nearness is None
    metrics = metrics_of(Dossier(candidate="even", sha256="0" * 64, is_same_tokenizer=True, comparison=found))
    assert metrics[ADDITION.name]["teacher_greedy"] == 1
    assert metrics["all"]["retention"] == pytest.approx(share)


def test_samples_are_compared_where_there_are_any(tmp_path: Path) -> None:
    """With samples the scores are their means, of an item together; the greedy ones stay in the rows."""
    codec = chat(tmp_path)
    candidate = subject("never", codec, tmp_path, lambda left, right: False)
    teacher = subject("always", codec, tmp_path, lambda left, right: True)
    with Pool(1) as pool:
        questions = Questions(domains=[ADDITION], num_items=4, num_samples=4)
        found = compare(candidate, teacher, questions, pool)
    assert [side.domains[0].greedy.mean for side in (found.candidate, found.teacher)] == [0, 1]
    assert found.candidate.score.value == found.teacher.score.value
    assert 0 < found.candidate.score.value < 1
    assert found.kept.differences[ADDITION.name].high == 0


def test_answers_are_as_long_as_they_were_trained(tmp_path: Path) -> None:
    """The settings' limit of an answer holds, else the item's own."""
    codec = chat(tmp_path)
    both = [subject(name, codec, tmp_path, lambda left, right: True) for name in ("a", "b")]
    with Pool(1) as pool:
        for limit in (3, None):
            settings = ADDITION.model_copy(update={"max_answer_tokens": limit})
            compare(both[0], both[1], Questions(domains=[settings], num_items=2), pool)
    (domain,) = audited([ADDITION.name])
    own = [item.max_answer_tokens for item in held_out(domain, (0, 1), 2)]
    sampler = both[0].sampler
    assert isinstance(sampler, Adder)
    assert sampler.limits == [3, 3, *own]


@pytest.mark.parametrize("questions", [Questions(domains=[]), Questions(domains=[ADDITION], num_items=1)])
def test_too_little_is_refused(questions: Questions, tmp_path: Path) -> None:
    """No domain, or one item of each, whose score would have no interval."""
    both = subject("a", chat(tmp_path), tmp_path, lambda left, right: True)
    with Pool(1) as pool, pytest.raises(RunError, match="at least 2 items"):
        compare(both, both, questions, pool)
