"""A draft as it is written, and as llama.cpp and vLLM are told of it."""

from __future__ import annotations

import argparse
import json

import pytest

from loadtests.speculation.drafts import (
    DEFAULT_MATCH_TOKENS,
    DEFAULT_MAX_TOKENS,
    draft_of,
    llamacpp_setting,
    vllm_setting,
)
from loadtests.tuning.servers import tier_config
from serving.engines.llamacpp import LlamaCppSettings
from serving.engines.llamacpp_draft import ModelDraft, NgramDraft


def test_what_llamacpp_is_told_is_a_tiers_draft() -> None:
    """Every member arrives in the settings, the model's as the file that it is."""
    ngram = draft_of("short=ngram,match_tokens=2,max_tokens=4")
    model = draft_of("q4=model,model=fast@stable,min_probability=0.5")
    assert (ngram.name, ngram.max_tokens, ngram.model) == ("short", 4, None)
    assert (model.name, model.max_tokens, model.model) == ("q4", 3, "fast@stable")
    read = [
        LlamaCppSettings.model_validate(
            tier_config("t", "m", llamacpp_setting(draft, file))["tiers"]["t"]["engine"]
        ).draft
        for draft, file in ((ngram, None), (model, "/fast.gguf"))
    ]
    assert read == [
        NgramDraft(match_tokens=2, max_tokens=4),
        ModelDraft(model="/fast.gguf", min_probability=0.5),
    ]


def test_what_vllm_is_told() -> None:
    """In its own words; a name is the whole text where none is given."""
    draft = draft_of("ngram,match_tokens=4")
    assert draft.name == "ngram,match_tokens=4"
    assert json.loads(str(vllm_setting(draft)["speculative-config"])) == {
        "method": "ngram",
        "num_speculative_tokens": 8,
        "prompt_lookup_min": 4,
        "prompt_lookup_max": 4,
    }
    said = vllm_setting(draft_of("head=model,model=./head,max_tokens=2"))
    assert json.loads(str(said["speculative-config"])) == {"num_speculative_tokens": 2, "model": "./head"}


def test_defaults_are_the_tiers() -> None:
    """The number of tokens that a prediction is looked up by is what the engine will draft."""
    assert {
        "ngram": NgramDraft().max_tokens,
        "model": ModelDraft(model="m").max_tokens,
    } == DEFAULT_MAX_TOKENS
    assert NgramDraft().match_tokens == DEFAULT_MATCH_TOKENS


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("eagle", "a draft is ngram or model"),
        ("x=", "a draft is ngram or model"),
        ("ngram,model=x", "none of match_tokens, max_tokens"),
        ("ngram,max_tokens", "none of match_tokens, max_tokens"),
        ("ngram,max_tokens=few", "max_tokens is a number"),
        ("model", "say which"),
    ],
)
def test_what_is_no_draft(text: str, message: str) -> None:
    """Each is told with what to write."""
    with pytest.raises(argparse.ArgumentTypeError, match=message):
        draft_of(text)
