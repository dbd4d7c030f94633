"""A draft as it is named on the command line, and as each engine's setting. Pure.

    ngram   ngram,match_tokens=4,max_tokens=16   q4=model,model=fast@stable,max_tokens=3

The members are those of `tiers.NAME.engine.draft`. vLLM is told the same in its own words (`--speculative-config`).
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

DEFAULT_MAX_TOKENS: Final = {"ngram": 8, "model": 3}
DEFAULT_MATCH_TOKENS: Final = 3
"""As `serving.engines.llamacpp_draft` has them."""
Member = int | float | str
_MEMBERS: Final = {
    "ngram": {"match_tokens", "max_tokens"},
    "model": {"model", "max_tokens", "min_probability", "quantization"},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """One way to propose tokens."""

    name: str
    kind: str
    members: Mapping[str, Member]

    @property
    def max_tokens(self) -> int:
        """γ: proposed in one round."""
        return int(self.members.get("max_tokens", DEFAULT_MAX_TOKENS[self.kind]))

    @property
    def model(self) -> str | None:
        """What drafts, as the operator named it; None for n-grams."""
        named = self.members.get("model")
        return None if named is None else str(named)


def draft_of(text: str) -> Draft:
    """What an option says.

    Raises:
        argparse.ArgumentTypeError: it says nothing of the kind.
    """
    head, *rest = text.split(",")
    name, _, kind = head.rpartition("=")
    if kind not in _MEMBERS:
        raise argparse.ArgumentTypeError(
            f"{text!r}: a draft is ngram or model, for example q4=model,model=fast@stable"
        )
    members: dict[str, Member] = {}
    for word in rest:
        member, equals, value = word.partition("=")
        if not equals or member not in _MEMBERS[kind]:
            known = ", ".join(sorted(_MEMBERS[kind]))
            raise argparse.ArgumentTypeError(f"{text!r}: {word!r} is none of {known}, each as NAME=VALUE")
        members[member] = _value(member, value, text)
    if kind == "model" and "model" not in members:
        raise argparse.ArgumentTypeError(f"{text!r}: say which, for example model,model=fast@stable")
    return Draft(name=name or text, kind=kind, members=members)


def llamacpp_setting(draft: Draft, model: str | None) -> dict[str, Member]:
    """Leaves below `tiers.NAME.engine`; `model` is the file of the draft's, where it has one."""
    members = {**draft.members, **({} if model is None else {"model": model})}
    return {"draft.type": draft.kind} | {f"draft.{name}": value for name, value in members.items()}


def vllm_setting(draft: Draft) -> dict[str, Member]:
    """An option of vLLM's server. A head in the `speculators` format is a model like any other."""
    said: dict[str, Member] = {"num_speculative_tokens": draft.max_tokens}
    if draft.kind == "ngram":
        match = draft.members.get("match_tokens", DEFAULT_MATCH_TOKENS)
        said |= {"method": "ngram", "prompt_lookup_min": match, "prompt_lookup_max": match}
    else:
        said["model"] = str(draft.model)
    return {"speculative-config": json.dumps(said)}


def _value(member: str, value: str, text: str) -> Member:
    if member in {"model", "quantization"}:
        return value
    try:
        return float(value) if member == "min_probability" else int(value)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}: {member} is a number") from None
