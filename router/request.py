"""What the router may know of a request. Built by a protocol adapter: nothing else reads the body."""

from __future__ import annotations

from dataclasses import dataclass

from router.arms import Effort


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestView:
    """One request as the router sees it, the same for every protocol."""

    endpoint: str
    """`chat`, `completions`, `responses` or `embeddings`."""
    model: str
    """What `router.filter.resolve_model` made of the client's `model`: `auto`, a tier or an arm."""
    turns: tuple[str, ...]
    """The text of each user turn, oldest first: without tool results and system text. The task is in all of
    them, not in the last alone, which may say no more than "go on"."""
    system: str = ""
    num_chars: int = 0
    """All text that the model will read, tool results and schemas included."""
    modalities: frozenset[str] = frozenset({"text"})
    num_tools: int = 0
    is_tool_loop: bool = False
    """The last message is a tool's result: the model is in the middle of its work."""
    needs_schema: bool = False
    needs_logprobs: bool = False
    num_choices: int = 1
    max_output_tokens: int | None = None
    service_tier: str | None = None
    max_effort: Effort | None = None
    """The client's `reasoning_effort`: no arm above it is considered."""
    wanted_arm: str | None = None
    """`x-tierwise-arm`."""
    max_cost: float | None = None
    """`x-tierwise-max-cost`: the most that one answer may be expected to cost."""
    min_quality: float | None = None
    """`x-tierwise-min-quality`: the least probability of success to accept, in [0, 1]."""
    session: str | None = None
    parameters: frozenset[str] = frozenset()
    """Names of the request's members that are set to something other than their default."""

    @property
    def task(self) -> str:
        """All user turns as one text."""
        return "\n\n".join(self.turns)

    @property
    def num_turns(self) -> int:
        """User turns in the conversation."""
        return len(self.turns)

    @property
    def num_input_tokens(self) -> float:
        """Estimate of the prompt's tokens: four characters a token, and the template's eight a turn."""
        return self.num_chars / 4 + 8 * (self.num_turns + 1)
