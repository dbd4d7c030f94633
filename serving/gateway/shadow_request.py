"""Which requests may be asked a second time, of whom, and in which words: the client's, but not as a stream."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from router.arms import Arm
from router.filter import AUTO, exclude
from router.request import RequestView
from serving.gateway.body import REMOVED, splice
from serving.gateway.protocols.base import Forward, ProtocolAdapter, Target
from serving.gateway.shadow_answer import Overheard

ENDPOINTS: Final = frozenset({"chat", "completions"})
UNSUITABLE: Final = frozenset(
    {
        *(
            "store",
            "background",
            "previous_response_id",
            "conversation",
        ),  # kept somewhere, or begun from there
        *("tools", "functions", "web_search_options"),
        *("best_of", "echo"),
    }
)
"""Members with which a request is asked once, if they are set."""


@dataclass(frozen=True, slots=True, repr=False)
class Drawn:
    """A request that the lot fell on, for as long as it may be needed; in memory alone, and without a `repr`."""

    adapter: ProtocolAdapter
    raw: bytes
    fields: Mapping[str, Any]
    view: RequestView
    overheard: Overheard
    """What the client is answered."""

    def forward(self, target: Target) -> Forward:
        """The same request to another arm, to be answered whole."""
        streaming = {name: REMOVED for name in ("stream", "stream_options") if name in self.fields}
        fields = {name: value for name, value in self.fields.items() if name not in streaming}
        return self.adapter.forward(splice(self.raw, self.fields, streaming), fields, target)


def is_suitable(view: RequestView) -> bool:
    """Whether nobody would notice that the request was made twice, and its answer is one text."""
    return (
        view.endpoint in ENDPOINTS
        and view.num_choices == 1
        and not view.num_tools
        and not view.is_tool_loop
        and view.modalities == {"text"}
        and view.parameters.isdisjoint(UNSUITABLE)
        and (view.endpoint == "chat" or view.num_turns == 1)
        and bool(view.task.strip())
    )


def other_arms(view: RequestView, arms: Sequence[Arm], chosen: str) -> tuple[Arm, ...]:
    """The arms that could have answered, but for the chosen one: whatever the client had said of tiers and arms."""
    free = replace(view, model=AUTO, wanted_arm=None, service_tier=None)
    excluded = exclude(free, arms)
    return tuple(arm for arm in arms if arm.name != chosen and arm.name not in excluded)
