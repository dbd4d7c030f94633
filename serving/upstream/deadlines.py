"""How long an upstream may take: four clocks, each with its own question."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadlines:
    """Seconds that one attempt may take. Time in which *our* reader is busy elsewhere counts only towards `total_s`."""

    connect_s: float
    """Name look-up, TCP and TLS. A connection that is reused takes none of it."""
    first_token_s: float
    """Request sent → first byte of the answer's body."""
    idle_s: float
    """Waiting for the next bytes of the body, each time anew."""
    total_s: float
    """Arrival of the client's request → last byte of the answer, the wait for a replica included."""

    def for_whole_answer(self) -> Deadlines:
        """The same for an answer that is no stream: its first byte is nearly its last, so only the total can tell."""
        return replace(self, first_token_s=self.total_s, idle_s=self.total_s)
