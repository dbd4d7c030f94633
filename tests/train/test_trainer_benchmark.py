"""Both sides of the benchmark do the same work."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from tests.train.model.tiny import reference_llama, tiny_llama, tiny_shape
from train.codec import CodecError
from train.trainer_benchmark import Load, Pace, Race, _check_same_tokens, race, reward_of


def checkpoint(path: Path) -> Path:
    """A tiny Llama over bytes."""
    vocabulary = {
        token: place
        for place, token in enumerate(["<p>", "<e>", *sorted(pre_tokenizers.ByteLevel.alphabet())])
    }
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<p>", eos_token="<e>")
    fast.chat_template = "{% for m in messages %}{{ m['content'] }}<e>{% endfor %}"
    fast.save_pretrained(path)
    shape = tiny_shape(vocab_size=len(vocabulary))
    reference_llama(tiny_llama(shape, dtype=torch.float32)).save_pretrained(path)
    return path


@pytest.mark.training
@pytest.mark.timeout(300)
@pytest.mark.filterwarnings("ignore")
def test_both_sides_do_the_same_work(tmp_path: Path) -> None:
    """As many rollouts, about as many tokens, and a time for each; whose turn is first alternates, and each repetition
    draws other answers."""
    load = Load(num_prompts=2, num_answers=4, max_tokens=6, num_layers=2, num_steps=2, num_repetitions=2)
    turns = []
    found = race(
        checkpoint(tmp_path),
        ["1+2=", "3+44=", "unused"],
        load,
        on_pace=lambda side, repetition, _: turns.append((side, repetition)),
    )
    assert turns == [("tierwise", 0), ("trl", 0), ("trl", 1), ("tierwise", 1)]
    for pace in (*found.ours, *found.trl):
        assert pace.num_rollouts == 16
        assert 48 < pace.num_tokens <= 96
        assert min(pace.wall_s, pace.cpu_s) > 0


def test_prompts_that_differ_are_refused(tmp_path: Path) -> None:
    """Where TRL would be asked in other tokens than ours, nothing is compared."""
    path = checkpoint(tmp_path)
    tokenizer = PreTrainedTokenizerFast.from_pretrained(path)
    said = [[{"role": "user", "content": "1+2="}]]
    _check_same_tokens(path, tokenizer, said)
    tokenizer.chat_template = "Q: " + tokenizer.chat_template
    with pytest.raises(CodecError, match="other tokens"):
        _check_same_tokens(path, tokenizer, said)


def test_ratios_by_hand() -> None:
    """The median over repetitions of ratios within each."""
    ours = (Pace(10, 100, 1.0, 1.0), Pace(10, 100, 2.0, 1.0), Pace(10, 100, 1.0, 1.0))
    trl = (Pace(10, 50, 2.0, 3.0), Pace(10, 50, 2.0, 3.0), Pace(10, 50, 4.0, 3.0))
    found = Race(ours, trl)
    assert found.ratio("rollouts_per_s") == 2.0
    assert found.ratio("tokens_per_s") == 4.0
    assert found.ratio("rollouts_per_cpu_s") == 3.0
    assert found.ratio("tokens_per_cpu_s") == 6.0


def test_rewards_differ() -> None:
    """From answer to answer, and never by chance of the machine."""
    assert reward_of([1, 2]) == reward_of((1, 2)) != reward_of([2, 1])
    assert all(0 <= reward_of([token]) < 1 for token in range(50))
