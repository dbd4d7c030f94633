"""The example of docs/add_a_domain.md is a domain, is found, and passes the audit."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from train.domains import catalog
from train.domains.auditing.examine import Examination
from train.verifiers.pool import Pool

PAGE = Path(__file__).parents[3] / "docs" / "add_a_domain.md"


def test_the_documented_domain_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Dropped into a package it is found by its file, judged in workers, and nothing is held against it."""
    [source] = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert sum(bool(line.strip()) for line in source.splitlines()) <= 30
    package = tmp_path / "documented_domains"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "vowel_counting.py").write_text(source)
    monkeypatch.syspath_prepend(str(tmp_path))
    [domain] = catalog.domains("documented_domains").values()
    with Pool(1, warm=()) as pool, Pool(1, warm=(), hash_seed=1) as other:
        record = Examination(domain, pool, other, num_items=60, package="documented_domains").record()
    assert record.failures == ()
    assert (record.right.num_accepted, record.right.num_answers) == (60, 60)
    assert record.wrong.num_accepted == record.adversarial.num_accepted == 0
    assert 0 < record.baseline < 0.5
