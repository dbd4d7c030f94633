"""Measuring a server whose pace is known."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from loadtests.gateway_process import free_port, mock_upstream
from loadtests.tuning.figures import NUM_STREAMS
from loadtests.tuning.load import GREEDY_PROMPTS, STREAM_TOKENS, ServedEngine
from loadtests.tuning.search import EngineDown

TTFT_S = 0.2
ITL_S = 0.02


async def test_figures_of_a_known_pace(tmp_path: Path) -> None:
    """Time to the first token as it is, tokens/s from there on, and all streams together with their prompts."""
    with mock_upstream(ttft_ms=1e3 * TTFT_S, itl_ms=1e3 * ITL_S, num_tokens=8, directory=tmp_path) as (
        url,
        _,
    ):
        engine = ServedEngine(url=url, model="mock")
        await engine.warm_up()
        found = await engine.figures(seed=1)
        answers = await engine.greedy_answers()
    assert TTFT_S <= found.first_token_s < 20 * TTFT_S
    assert 0.1 / ITL_S < found.alone_tokens_per_s < 1.2 / ITL_S
    whole_s = TTFT_S + ITL_S * (STREAM_TOKENS - 1)
    assert 0.05 < found.streams_tokens_per_s / (NUM_STREAMS * STREAM_TOKENS / whole_s) <= 1.02
    assert len(answers) == len(GREEDY_PROMPTS)
    assert all(answers)


async def test_nobody_there() -> None:
    """Is told as such, for load and greedy answers alike."""
    engine = ServedEngine(url=f"http://127.0.0.1:{free_port()}", model="none")
    with pytest.raises(EngineDown, match="cannot connect"):
        await asyncio.wait_for(engine.figures(seed=1), 20)
    with pytest.raises(EngineDown, match="gave no answer"):
        await engine.greedy_answers()
