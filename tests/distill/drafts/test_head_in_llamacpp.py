"""llama.cpp drafts with an exported head, and its drafts are taken where ours are said to be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from distill.calibration import CalibrationText
from distill.drafts.gguf_head import save_gguf_head
from tests.distill.drafts.taught_head import NUM_DRAFTS, NUM_TOKENS, foresee, teach
from tests.engines.real_engine import RunningEngine, running
from train.checkpoints.to_gguf import convert_to_gguf

pytestmark = [pytest.mark.engines, pytest.mark.timeout(400)]
torch.set_num_threads(1)


def answer(engine: RunningEngine, prompt: tuple[int, ...]) -> dict[str, Any]:
    asked = {"prompt": list(prompt), "n_predict": NUM_TOKENS, "temperature": 0, "ignore_eos": True}
    told = engine.post("/completion", json={**asked, "return_tokens": True, "cache_prompt": False})
    told.raise_for_status()
    found: dict[str, Any] = told.json()
    return found


def test_llamacpp_takes_what_we_foresee(tmp_path: Path) -> None:
    """The same greedy text with a head as without, and as many drafts taken as read off that text."""
    taught = teach(tmp_path)
    convert_to_gguf(taught.start, tmp_path / "target.gguf")
    save_gguf_head(taught.head, tmp_path / "head.gguf", taught.start, matrices="F32")
    draft = {"type": "model", "model": "head.gguf", "max_tokens": NUM_DRAFTS}
    with running(tmp_path / "target.gguf", slots=1) as engine:
        alone = [answer(engine, text.prompt)["tokens"] for text in taught.texts]
    with running(tmp_path / "target.gguf", tmp_path / "head.gguf", slots=1, draft=draft) as engine:
        told = [answer(engine, text.prompt) for text in taught.texts]
    assert [each["tokens"] for each in told] == alone
    texts = [
        CalibrationText("a", text.prompt, tuple(tokens))
        for text, tokens in zip(taught.texts, alone, strict=True)
    ]
    foreseen = sum(foresee(taught, texts).accepted)
    accepted = sum(each["timings"]["draft_n_accepted"] for each in told)
    assert foreseen > NUM_TOKENS
    # drafts behind a text's end may be taken, and are cut with it: at most one round a text
    assert foreseen <= accepted <= foreseen + len(texts)
