"""Server-sent events, wherever the network cuts them."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadtests.event_stream import EventStream

STREAM = ': hello\n\ndata: {"a": "wörld"}\n\nevent: x\ndata: 1\ndata:2\nid: 7\n\n: ping\n\ndata: [DONE]\n\n'
EVENTS = ['{"a": "wörld"}'.encode(), b"1\n2", b"[DONE]"]


@given(cuts=st.lists(st.integers(0, 200), max_size=12), newline=st.sampled_from(["\n", "\r\n"]))
def test_cuts_do_not_matter(cuts: list[int], newline: str) -> None:
    """Any way of cutting the bytes, within characters and within CRLF too, yields the same events."""
    data = STREAM.replace("\n", newline).encode()
    edges = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    events = EventStream()
    pieces = [data[begin:end] for begin, end in pairwise(edges)]
    assert [event for piece in pieces for event in events.feed(piece)] == EVENTS


def test_an_event_is_told_when_it_is_complete() -> None:
    """The blank line ends it, and not a moment earlier."""
    events = EventStream()
    assert events.feed(b"data: 1\n") == []
    assert events.feed(b"\n") == [b"1"]


@pytest.mark.parametrize("data", [b"data: x", b"data:x", b"data:  x"])
def test_one_space_after_the_colon_is_dropped(data: bytes) -> None:
    """One, and no more: the rest is the data's own."""
    assert EventStream().feed(data + b"\n\n") == [data[5:].removeprefix(b" ")]
