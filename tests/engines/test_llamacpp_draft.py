"""Drafts on llama.cpp: how both ways of running it are told, what is refused, and that nothing else is said."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from gguf import GGUFWriter
from pydantic import ValidationError

from serving.bringup.draft_model import draft_model
from serving.bringup.progress import LineReport
from serving.engines import llamacpp_server
from serving.engines.base import EngineError
from serving.engines.gguf_header import vocabulary_sha256
from serving.engines.llamacpp import LlamaCppEngine, LlamaCppSettings
from serving.engines.llamacpp_draft import HEAD_ARCHITECTURE, ModelDraft, NgramDraft, describe_draft
from serving.engines.llamacpp_plan import read_shape, with_draft
from serving.engines.machine import Machine
from serving.registry.errors import RegistryError
from serving.registry.store import Store
from tests.engines.real_engine import RunningEngine, released, running

LAPTOP = Machine(num_cores=4, memory_bytes=8 << 30)
MakeGguf = Callable[..., Path]
NGRAM = {"type": "ngram", "match_tokens": 2, "max_tokens": 12}
TEXT = (
    "The river rose in the night. By morning the lower meadow was under water, and the cows stood on the hill. "
    "Nobody had closed the gate, so the boat drifted away toward the mill."
)
PROMPTS = (
    f"Repeat the following text exactly, word for word:\n\n{TEXT}",
    "Explain in a few sentences why the sky is blue.",
)


def argv_of(model: Path, draft: dict[str, Any], draft_file: Path | None = None, **settings: Any) -> list[str]:
    node = LlamaCppSettings.model_validate({"draft": draft, **settings})
    engine = LlamaCppEngine(node, machine=LAPTOP, draft_model=draft_file)
    return list(engine.launch(tier="full", model=model, port=1).argv)


def params_of(argv: list[str]) -> Any:
    """llama.cpp's own parameters, as the child sets them."""
    import xllamacpp

    with patch.dict(os.environ, {llamacpp_server.KEY_VARIABLE: "k"}):
        return llamacpp_server._params(xllamacpp, llamacpp_server._parser().parse_args(argv[4:]))


def test_the_engine_inside_looks_up_ngrams(make_gguf: MakeGguf) -> None:
    """The sizes arrive in llama.cpp's parameters; without a draft there is none."""
    told = params_of(argv_of(make_gguf(), NGRAM)).speculative
    assert [each.name for each in told.types] == ["COMMON_SPECULATIVE_TYPE_NGRAM_SIMPLE"]
    assert (told.ngram_simple.size_n, told.ngram_simple.size_m) == (2, 12)
    plain = LlamaCppEngine(LlamaCppSettings(), machine=LAPTOP).launch(tier="full", model=make_gguf(), port=1)
    untold = params_of(list(plain.argv)).speculative
    assert [each.name for each in untold.types] == ["COMMON_SPECULATIVE_TYPE_NONE"]


def test_the_engine_inside_loads_a_draft(make_gguf: MakeGguf) -> None:
    """Its file, how far it writes ahead, and as many threads as the model has."""
    draft = {"type": "model", "model": "fast@stable", "max_tokens": 5, "min_probability": 0.5}
    file = make_gguf("draft.gguf")
    told = params_of(argv_of(make_gguf(), draft, file, threads=3, threads_alone=2)).speculative
    assert [each.name for each in told.types] == ["COMMON_SPECULATIVE_TYPE_DRAFT_SIMPLE"]
    assert (told.draft.mparams.path, told.draft.n_max, told.draft.p_min) == (str(file), 5, 0.5)
    assert (told.draft.cpuparams.n_threads, told.draft.cpuparams_batch.n_threads) == (2, 3)


def make_head(path: Path, *, width: int = 64, layers: tuple[int, ...] = (1, 2, 3)) -> Path:
    """A head's metadata, without tensors."""
    writer = GGUFWriter(path, HEAD_ARCHITECTURE)
    for key, value in (("block_count", 1), ("embedding_length", width), ("target_hidden_size", width)):
        writer.add_uint32(f"{HEAD_ARCHITECTURE}.{key}", value)
    writer.add_array(f"{HEAD_ARCHITECTURE}.target_layers", list(layers))
    writer.add_array("tokenizer.ggml.tokens", ("a", "bc", "déf"))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    return path


def test_a_head_is_known_by_its_file(make_gguf: MakeGguf, tmp_path: Path) -> None:
    """Both ways of running llama.cpp are told that the draft reads the model's states."""
    head, draft = make_head(tmp_path / "head.gguf"), {"type": "model", "model": "head.gguf"}
    told = params_of(argv_of(make_gguf(), draft, head)).speculative
    assert [each.name for each in told.types] == ["COMMON_SPECULATIVE_TYPE_DRAFT_EAGLE3"]
    assert told.draft.mparams.path == str(head)
    binary = tmp_path / "llama-server"
    binary.write_text("#!/bin/sh\n")
    binary.chmod(0o755)
    assert "--spec-type draft-eagle3" in " ".join(argv_of(make_gguf(), draft, head, binary=binary))


@pytest.mark.parametrize("changes", [{"width": 32}, {"layers": (1, 2, 4)}])
def test_a_head_of_another_model_is_refused(
    make_gguf: MakeGguf, tmp_path: Path, changes: dict[str, Any]
) -> None:
    """Of another width, or one that reads a layer that is not there."""
    head = make_head(tmp_path / "head.gguf", **changes)
    with pytest.raises(EngineError, match=r"head\.gguf was not made for model\.gguf.*train"):
        argv_of(make_gguf(), {"type": "model", "model": "h"}, head)


def test_a_binary_is_told_by_its_own_flags(make_gguf: MakeGguf, tmp_path: Path) -> None:
    """As `llama-server --help` has them; the operator's come last."""
    binary = tmp_path / "llama-server"
    binary.write_text("#!/bin/sh\n")
    binary.chmod(0o755)
    own: dict[str, Any] = {"binary": binary, "binary_args": ["-x"], "threads": 2}
    assert " ".join(argv_of(make_gguf(), NGRAM, **own)).endswith(
        "--spec-type ngram-simple --spec-ngram-simple-size-n 2 --spec-ngram-simple-size-m 12 -x"
    )
    file = make_gguf("draft.gguf")
    assert " ".join(argv_of(make_gguf(), {"type": "model", "model": "d"}, file, **own)).endswith(
        f"--spec-type draft-simple --spec-draft-model {file} --spec-draft-n-max 3 --spec-draft-p-min 0.0 "
        "--spec-draft-threads 2 --spec-draft-threads-batch 2 -x"
    )


def test_another_vocabulary_is_refused(make_gguf: MakeGguf) -> None:
    """One token that differs is enough, and so is another end of a text; other weights are not."""
    model = make_gguf()
    alike = make_gguf("alike.gguf", block_count=2)
    other = make_gguf("other.gguf", tokens=("a", "bc", "def"))
    assert vocabulary_sha256(model) == vocabulary_sha256(alike) != vocabulary_sha256(other)
    draft = {"type": "model", "model": "d"}
    assert argv_of(model, draft, alike)
    with pytest.raises(EngineError, match=r"other\.gguf has another vocabulary .* smaller model of the same"):
        argv_of(model, draft, other)


def test_a_draft_that_is_not_there(tmp_path: Path) -> None:
    """Told before anything is started, with what to write instead; n-grams need no file."""
    store, report = Store(tmp_path / "registry"), LineReport(lambda line: None)
    with pytest.raises(RegistryError, match=r"no file .*absent\.gguf; correct the path"):
        draft_model(store, ModelDraft(model=f"{tmp_path}/absent.gguf"), report)
    with pytest.raises(RegistryError, match="draft@stable"):
        draft_model(store, ModelDraft(model="draft@stable"), report)
    assert draft_model(store, NgramDraft(), report) is None
    assert draft_model(store, None, report) is None


def test_a_draft_takes_memory(make_gguf: MakeGguf) -> None:
    """Its weights and its keys and values; and the shorter of both contexts is what can be drafted in."""
    model = read_shape(make_gguf(num_bytes=1 << 20))
    draft = read_shape(make_gguf("draft.gguf", num_bytes=1 << 19, context_length=1024, block_count=2))
    both = with_draft(model, draft)
    assert both.kv_bytes_per_token == model.kv_bytes_per_token + draft.kv_bytes_per_token
    assert both.draft_bytes > draft.file_bytes == 1 << 19
    assert (both.file_bytes, both.trained_context_tokens) == (model.file_bytes, 1024)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"draft": {"type": "ngram", "max_tokens": 0}}, "greater than or equal to 1"),
        ({"draft": {"type": "model"}}, "Field required"),
        ({"draft": {"type": "ngram", "model": "x"}}, "Extra inputs"),
        ({"draft": {"type": "head"}}, "'ngram', 'model'"),
        ({"draft": {"type": "ngram"}, "embeddings": True}, "leave `draft` out"),
    ],
)
def test_what_cannot_be(settings: dict[str, Any], message: str) -> None:
    """Refused when the settings are read."""
    with pytest.raises(ValidationError, match=message):
        LlamaCppSettings.model_validate(settings)


def test_as_one_reads_it() -> None:
    """For `tierwise engine describe`."""
    assert describe_draft(NgramDraft()) == "n-grams: up to 8 tokens, where the last 3 were said before"
    assert describe_draft(ModelDraft(model="fast@stable", min_probability=0.4)) == (
        "fast@stable: up to 3 tokens, each with a probability of 0.4"
    )


def greedy(engine: RunningEngine) -> list[tuple[str, int, int]]:
    """What is said to each prompt, how much of it was proposed, and how much of that was taken."""
    found = []
    for prompt in PROMPTS:
        answer = engine.chat(messages=[{"role": "user", "content": prompt}], max_tokens=40)
        timings = answer["timings"]
        text = answer["choices"][0]["message"]["content"]
        found.append((text, timings.get("draft_n", 0), timings.get("draft_n_accepted", 0)))
    return found


@pytest.mark.engines
@pytest.mark.timeout(300)
def test_nothing_else_is_said(engine: RunningEngine, full_model: Path) -> None:
    """At temperature 0 the text is the same with n-grams and with a model that drafts, and some of it was proposed."""
    alone = greedy(engine)
    assert {drafted for _, drafted, _ in alone} == {0}
    draft = {"type": "model", "model": "fast@stable"}
    for settings, file in ((NGRAM, None), (draft, released("fast"))):
        with running(full_model, draft_model=file, draft=settings, slots=1) as client:
            drafted = greedy(client)
        assert [text for text, _, _ in drafted] == [text for text, _, _ in alone]
        assert drafted[0][1] >= drafted[0][2] > 0


@pytest.mark.engines
@pytest.mark.timeout(300)
def test_log_probabilities_are_not_to_be_had(full_model: Path) -> None:
    """llama.cpp still has none of proposed tokens, which is why such a tier offers none. Where this fails, it may."""
    with running(full_model, draft=NGRAM, slots=1) as client:
        answer = client.chat(
            messages=[{"role": "user", "content": PROMPTS[0]}], logprobs=True, top_logprobs=2
        )
    content = answer["choices"][0]["logprobs"]["content"]
    assert any(each["logprob"] == 0 and not each["top_logprobs"] for each in content)
