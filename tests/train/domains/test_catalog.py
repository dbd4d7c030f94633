"""Domains are found by their files."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from train.domains import catalog
from train.domains.base import Family

ONE = """
from types import SimpleNamespace
from train.domains.base import Family
DOMAIN = SimpleNamespace(name="{name}", family=Family.CODE)
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package of domains that nobody else has imported."""
    root = tmp_path / "some_domains"
    (root / "deep").mkdir(parents=True)
    (root / "__init__.py").write_text("")
    (root / "deep" / "__init__.py").write_text(
        ONE.format(name="zeta").replace("DOMAIN =", "DOMAINS = (") + ",)"
    )
    (root / "alpha.py").write_text(ONE.format(name="alpha"))
    (root / "explosive.py").write_text("raise RuntimeError('imported without need')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    catalog.domains.cache_clear()
    catalog._found.cache_clear()
    for name in [name for name in sys.modules if name.split(".")[0] == "some_domains"]:
        del sys.modules[name]
    return root


def test_modules_and_subpackages_are_found_and_others_left_alone(package: Path) -> None:
    """A module that assigns DOMAIN or DOMAINS is imported, in name order; one that does not is never run."""
    found = catalog.domains("some_domains")
    assert list(found) == ["alpha", "zeta"]
    assert catalog.module_of(found["zeta"], "some_domains") == "some_domains.deep"


def test_two_domains_of_one_name_are_refused(package: Path) -> None:
    """The message names both files."""
    (package / "beta.py").write_text(ONE.format(name="alpha"))
    with pytest.raises(catalog.DuplicateDomainError, match=r"some_domains\.alpha and in some_domains\.beta"):
        catalog.domains("some_domains")


def test_an_unknown_name_says_which_is_near(monkeypatch: pytest.MonkeyPatch, package: Path) -> None:
    """A misspelling is answered with the nearest name."""
    found = catalog.domains("some_domains")
    monkeypatch.setattr(catalog, "domains", lambda: found)
    assert catalog.get("alpha").name == "alpha"
    assert [d.name for d in catalog.by_family()[Family.CODE]] == ["alpha", "zeta"]
    with pytest.raises(catalog.UnknownDomainError, match="did you mean 'alpha'"):
        catalog.get("alhpa")


def test_every_domain_has_levels_and_a_sane_name() -> None:
    """Names are lower case, levels at least three, descriptions sentences."""
    for name, domain in catalog.domains().items():
        assert name == domain.name
        assert name.replace("_", "").isalnum()
        assert name == name.lower()
        assert domain.num_levels >= 3, name
        assert domain.description.endswith("."), name
