"""`tierwise bench speculation ./checkpoint --engine vllm` on a real vLLM. `make vllm-cpu` builds what it needs."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from loadtests.speculation_bench import main
from serving.registry.store import Store
from serving.settings import default_home
from tests.train.test_publish import quiet
from train.base import locate

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(3600)]

PYTHON = Path(__file__).parents[2] / ".venv-vllm" / "bin" / "python"


def test_ngrams_in_vllm(capsys: pytest.CaptureFixture[str]) -> None:
    """Greedy answers of the packaged base are the same or tied, and tokens that were looked up are among them."""
    if not PYTHON.exists():
        pytest.fail("this test needs vLLM in an environment of its own: run `make vllm-cpu`")
    home = Path(os.environ.get("TIERWISE_HOME") or default_home())
    base = locate("smollm2", Store(home / "registry"), quiet())
    argv = [str(base), "--engine", "vllm", "--python", str(PYTHON), "--draft", "ngram,max_tokens=4", "--json"]
    for setting in ("enforce-eager=true", "dtype=float32", "max-num-seqs=2"):
        argv += ["--set", setting]
    for variable in ("VLLM_CPU_OMP_THREADS_BIND=nobind", "VLLM_CPU_KVCACHE_SPACE=1"):
        argv += ["--set", variable]
    argv += ["--domains", "copy,prose", "--per-domain", "1", "--rounds", "1", "--max-tokens", "48"]
    assert main(argv) in {0, 1}
    told = json.loads(capsys.readouterr().out)
    both = next(row for row in told["rows"] if row["domain"] == "all")
    assert (both["num_prompts"], both["num_defects"]) == (2, 0)
    assert 0 < both["acceptance"] <= 1
    assert both["request"]["value"] > 0
