"""Laws that every domain of tool use, documents, knowledge, geometry and scheduling keeps."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from train.domains import catalog
from train.domains.base import Domain, Family
from train.domains.item_json import item_as_json, item_from_json, transcript_as_json, transcript_from_json
from train.transcript import Message, Transcript, answered

FAMILIES = (Family.TOOL_USE, Family.DOCUMENTS, Family.KNOWLEDGE, Family.GEOMETRY, Family.SCHEDULING)
DOMAINS = [domain for family in FAMILIES for domain in catalog.by_family()[family]]
NUM = 4
"""Items of each level."""

every = pytest.mark.parametrize("domain", DOMAINS, ids=lambda domain: domain.name)


def levels_of(domain: Domain) -> range:
    """The longest documents are left to the audit."""
    return range(min(4, domain.num_levels))


def test_there_are_as_many_as_the_design_asks_for() -> None:
    """At least so many of each family."""
    num = Counter(domain.family for domain in DOMAINS)
    least = dict(zip(FAMILIES, (8, 5, 4, 3, 3), strict=True))
    assert all(num[family] >= least[family] for family in FAMILIES), num


@every
def test_the_reference_is_right_and_items_are_the_same_every_time(domain: Domain) -> None:
    """The reference scores 1, for an item made again and sent as JSON as well."""
    for level in levels_of(domain):
        for index in range(NUM):
            item = domain.item(11, index, level)
            assert domain.item(11, index, level) == item
            sent = item_from_json(json.loads(json.dumps(item_as_json(item))))
            reference = transcript_from_json(
                json.loads(json.dumps(transcript_as_json(domain.reference(item))))
            )
            verdict = domain.verify(sent, reference)
            assert (verdict.score, verdict.passed) == (1.0, True), verdict
            assert all(0.0 <= part <= 1.0 for part in verdict.parts.values())
            assert not verdict.evidence


@every
def test_levels_and_seeds_are_different_tasks(domain: Domain) -> None:
    """No prompt of one level or seed is that of another."""
    prompts = [domain.item(seed, 0, level).prompt for seed in (1, 2) for level in levels_of(domain)]
    assert len(set(prompts)) == len(prompts)


@every
def test_nothing_is_paid_for_nothing(domain: Domain) -> None:
    """Silence, echoes, other items' answers and the answer among others earn nothing, or next to it."""
    earned = []
    for level in levels_of(domain):
        items = [domain.item(12, index, level) for index in range(NUM)]
        for item, other in zip(items, [*items[1:], items[0]], strict=True):
            state = domain.verify(item, Transcript((Message("assistant", ""),))).score
            assert state == 0.0
            texts = [
                "",
                "done",
                item.prompt,
                item.prompt.splitlines()[-1],
                f"{other.answer} or {item.answer}, I think",
            ]
            texts += [f"Answer: {item.answer}\nNo, that is wrong."]
            if other.answer != item.answer:
                texts.append(other.answer)
            earned += [domain.verify(item, _said(domain, item, text)).score for text in texts]
    assert sum(earned) / len(earned) <= 0.02


@every
def test_another_items_work_is_not_this_ones(domain: Domain) -> None:
    """The reference of one item, calls and all, does not pass another."""
    for level in levels_of(domain):
        one, other = (domain.item(13, index, level) for index in (0, 1))
        if one.answer != other.answer or one.environment != other.environment:
            assert not domain.verify(one, domain.reference(other)).passed


def _said(domain: Domain, item: object, text: str) -> Transcript:
    """Only words, with the tools as they were."""
    plain = answered(text)
    environment = getattr(item, "environment", None)
    if environment is None:
        return plain
    from train.tools.replay import replayed

    return Transcript(plain.messages, replayed(environment, plain).state)
