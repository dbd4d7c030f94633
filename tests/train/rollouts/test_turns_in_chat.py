"""Turns in serving's own chat template: what a policy reads in training is what it will read when it is served."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from train.codec import ChatCodec
from train.domains import catalog
from train.rollouts.rollout import SampleRequest, Sampling, Span, StopReason
from train.rollouts.turns import TurnLimits, play
from train.tools.toolset import BoundedToolset
from train.transcript import Message

TEMPLATE = Path(__file__).parents[3] / "serving" / "engines" / "templates" / "smollm2.jinja"


def chat(directory: Path) -> ChatCodec:
    """Bytes as tokens, under serving's template."""
    vocabulary = {token: place for place, token in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.add_special_tokens([AddedToken(mark, special=True) for mark in ("<|im_start|>", "<|im_end|>")])
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|im_end|>")
    fast.chat_template = TEMPLATE.read_text()
    fast.save_pretrained(directory)
    return ChatCodec(directory)


class Recited:
    """A `Sampler` that says given lines, turn by turn."""

    policy_version = 0

    def __init__(self, codec: ChatCodec, lines: Sequence[str]) -> None:
        self._lines = [codec.answer(line) for line in lines]

    def sample(
        self, requests: Sequence[SampleRequest], sampling: Sampling
    ) -> list[list[tuple[Span, StopReason]]]:
        ids = self._lines.pop(0)
        return [[(Span(ids, (-1.0,) * len(ids), 0), StopReason.END)] for _ in requests]


def as_written(message: Message) -> str:
    """As the template writes a turn with calls, which is the form that a policy is asked for."""
    calls = ", ".join(f'{{"name": "{call.name}", "arguments": {call.arguments}}}' for call in message.calls)
    return f"<tool_call>[{calls}]</tool_call>" if calls else message.text


def test_spans_are_what_the_template_renders(tmp_path: Path) -> None:
    """Prompt, calls, results of two tools at once and answer, laid end to end, are the conversation as served."""
    codec = chat(tmp_path)
    domain = catalog.get("tool_combined")
    item = domain.item(0, 0, 1)
    reference = domain.reference(item)
    lines = [as_written(message) for message in reference.messages if message.role == "assistant"]
    [[episode]] = play(
        [(item, [1])],
        sampler=Recited(codec, lines),
        codec=codec,
        sampling=Sampling(max_tokens=1_000),
        limits=TurnLimits(max_tokens=100_000),
    )
    assert episode.transcript == reference
    assert item.environment is not None
    schemas = BoundedToolset.of(item.environment).schemas()
    asked = (Message("user", item.prompt), *reference.messages[:-1])
    whole = codec.prompt(asked, schemas) + codec.answer(reference.answer)
    rendered = codec.tokenizer.decode(list(whole))
    assert codec.tokenizer.decode(list(episode.rollout.token_ids)) == rendered
    assert episode.rollout.token_ids == whole
