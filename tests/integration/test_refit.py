"""`tierwise route refit` on the real tiers: few prompts are asked, and invented outcomes make them enough to fit on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from serving.commands.outcomes_file import OutcomesFile, read_outcomes
from serving.commands.route_refit import main
from serving.registry.store import Store
from serving.settings_sources import load_settings
from tests.integration.conftest import RunningGateway

pytestmark = pytest.mark.engines

NUM_INVENTED = 210


@pytest.mark.timeout(400)
def test_refit_of_the_real_tiers(
    gateway: RunningGateway, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Beside a gateway that serves: engines start, are asked and end; too few are refused and kept; with more the same
    command asks nothing again, and the artifact's parents are the versions that the tiers are."""
    argv = ["--keep", str(tmp_path), "--n", "2", "--max-tokens", "8", "--folds", "2"]
    argv += ["--publish", "router@canary"]
    assert main(argv) == 1
    assert "2 outcomes of arm" in capsys.readouterr().err
    asked = read_outcomes(tmp_path / "outcomes.jsonl")
    assert sorted(row.arm for row in asked) == ["fast", "fast", "full", "full"]

    generator = np.random.default_rng(0)
    with OutcomesFile(tmp_path / "outcomes.jsonl") as file:
        for place in range(NUM_INVENTED):
            prompt = " ".join(generator.choice(["name", "river", "prove", "matrix", "song", "lemma"], 10))
            for row in {row.arm: row for row in asked}.values():
                is_right = bool(generator.random() < 0.5)
                file.append(replace(row, prompt_id=f"p/{place}", prompt=prompt, success=is_right))
    assert main(argv) == 0
    said = capsys.readouterr()
    assert "every answer is in" in said.err
    assert "asked 0 in" in said.out
    settings = load_settings(None)
    store = Store(settings.home / "registry")
    parents = {parent.role: str(parent.reference) for parent in store.load("router@canary").manifest.parents}
    assert parents == {name: str(store.resolve(str(tier.model))) for name, tier in settings.tiers.items()}
