"""The texts that a published policy is compared along: bounded, and spread over the domains."""

from __future__ import annotations

from itertools import pairwise

import pytest

from train.codec import CharacterCodec
from train.compared_texts import MAX_PER_DOMAIN, MAX_TEXTS, compared_texts
from train.domains import catalog
from train.domains.base import Domain, Family
from train.recipe import DomainSettings


def settings(names: list[str]) -> list[DomainSettings]:
    return [DomainSettings(name=name, levels=(0,)) for name in names]


@pytest.mark.parametrize(("num_domains", "num_texts"), [(1, 4), (16, 64), (17, 51), (64, 64), (120, 64)])
def test_few_of_many_domains(num_domains: int, num_texts: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four of each while there is room, then fewer, then one of domains from the first to nearly the last."""
    additions, asked = catalog.get("terse_addition"), []

    def get(name: str) -> Domain:
        asked.append(int(name))
        return additions

    monkeypatch.setattr(catalog, "get", get)
    found = compared_texts(settings([str(place) for place in range(num_domains)]), CharacterCodec())
    assert len(found) == num_texts <= MAX_TEXTS
    assert all(prompt and answer for prompt, answer in found)
    used = list(dict.fromkeys(asked[num_domains:]))  # before, each is asked whether it has tools
    assert len(used) == min(num_domains, MAX_TEXTS)
    assert {later - earlier for earlier, later in pairwise(used)} <= {1, 2}


def test_items_with_tools_are_left_out() -> None:
    """A domain of tools has no text, and takes no room."""
    with_tools = next(name for name, domain in catalog.domains().items() if domain.family is Family.TOOL_USE)
    assert compared_texts(settings([with_tools]), CharacterCodec()) == []
    assert len(compared_texts(settings([with_tools, "terse_addition"]), CharacterCodec())) == MAX_PER_DOMAIN
