"""What the gateway remembers between requests: the hard turns of sessions, and the arms that began tool loops.

Bounded: what was used longest ago is forgotten first. In this process's memory alone, so a session that another replica
of the gateway answers, or that a restart cuts in two, is decided turn by turn.
"""

from __future__ import annotations

from typing import Final

from router.decision import Decision
from router.request import RequestView
from router.session import NOTHING, Recollection, SessionMemory
from serving.gateway.recent import Recent

MAX_REMEMBERED: Final = 20_000
"""Sessions, and as many tool loops; some hundred bytes each."""
LOOP_TTL_S: Final = 3600.0
"""A tool may take long; after an hour nobody waits for it any more."""


class Sessions:
    """Recalls, before a request is decided, what its past says, and remembers what was decided."""

    def __init__(self, max_remembered: int = MAX_REMEMBERED) -> None:
        self._memories: Recent[tuple[str | None, str], SessionMemory] = Recent(max_remembered)
        self._loops: Recent[int, tuple[str, float]] = Recent(max_remembered)

    def recall(self, view: RequestView, key: str | None, now: float) -> Recollection:
        """What is remembered of the session of `view`, or of the tool loop that it goes on with.

        Args:
            key: name of the API key. Sessions of two keys are two sessions, whatever their names.
            now: monotonic seconds.
        """
        if view.is_tool_loop:
            begun = self._loops.get(_loop_of(view, key))
            if begun is not None and now - begun[1] <= LOOP_TTL_S:
                return Recollection(pinned_arm=begun[0])
        if view.session is None or view.endpoint == "embeddings":
            return NOTHING
        memory = self._memories.get((key, view.session))
        return NOTHING if memory is None else memory.recollection(now)

    def remember_turn(self, view: RequestView, key: str | None, decision: Decision, now: float) -> None:
        """Remember how hard a turn was; once a request. A step of a tool loop, or a text to be embedded, is no turn."""
        if view.session is not None and not view.is_tool_loop and view.endpoint != "embeddings":
            probabilities = {c.arm: c.weighed_probability for c in decision.candidates}
            self._memories.put((key, view.session), SessionMemory(probabilities=probabilities, at=now))

    def remember_arm(self, view: RequestView, key: str | None, arm: str, now: float) -> None:
        """Remember who answers a request that may begin a tool loop, or goes on with one."""
        if view.num_tools or view.is_tool_loop:
            self._loops.put(_loop_of(view, key), (arm, now))


def _loop_of(view: RequestView, key: str | None) -> int:
    """A tool loop by what stays the same in it: whose it is, and what the user has said so far."""
    return hash((key, view.session, view.endpoint, view.system, view.turns))
