"""Domains with one fault each, and the probe that finds it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.train.domains.faulty.sums import DOMAINS, FAULTS, Sums
from train.domains import catalog
from train.domains.auditing import examine
from train.domains.auditing.examine import Examination
from train.verifiers.pool import Pool

PACKAGE = "tests.train.domains.faulty"


@pytest.fixture(scope="module")
def pools() -> Iterator[tuple[Pool, Pool]]:
    """Workers that find the domains of this module."""
    with Pool(1, warm=()) as one, Pool(1, warm=(), hash_seed=1) as other:
        yield one, other


@pytest.fixture(autouse=True)
def short_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    """A verdict that hangs is given up soon."""
    monkeypatch.setattr(examine, "DEADLINE_S", 4.0)


def failures(name: str, pools: tuple[Pool, Pool]) -> dict[str, str]:
    domain = next(domain for domain in DOMAINS if domain.name == name)
    record = Examination(domain, *pools, num_items=60, package=PACKAGE).record()
    return {failure.probe: failure.detail for failure in record.failures}


@pytest.mark.parametrize(
    ("kind", "probe"), FAULTS.items(), ids=lambda value: getattr(value, "__name__", value)
)
def test_each_fault_is_found_by_its_probe(kind: type[Sums], probe: str, pools: tuple[Pool, Pool]) -> None:
    """The domain with the fault fails there."""
    assert probe in failures(kind.__name__.lower(), pools)


def test_a_sound_domain_passes(pools: tuple[Pool, Pool]) -> None:
    """Nothing is held against the sum of two numbers."""
    assert failures("sums", pools) == {}


def test_the_domains_here_are_found_like_any() -> None:
    """The catalogue finds them by this file."""
    assert set(catalog.domains(PACKAGE)) == {domain.name for domain in DOMAINS}
