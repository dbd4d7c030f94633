"""What the router may know of a request. Built by a protocol adapter; nothing else in the gateway reads the body."""

from __future__ import annotations

from dataclasses import dataclass

from router.arms import Effort


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestView:
    """One request as the router sees it, the same for every protocol."""

    endpoint: str
    """`chat`, `completions`, `responses` or `embeddings`."""
    model: str
    """As the client wrote it: `auto`, a tier, an arm or a concrete id."""
    task: str
    """What is asked for: the user's turns, oldest first, without tool results and system text."""
    last_turn: str = ""
    """The last user turn alone."""
    system: str = ""
    num_turns: int = 1
    """User turns in the conversation."""
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
    def num_input_tokens(self) -> float:
        """Estimate of the prompt's tokens: four characters a token, and eight tokens a turn for the template."""
        return self.num_chars / 4 + 8 * (self.num_turns + 1)
