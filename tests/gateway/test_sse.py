"""Events are cut where they end, however the network cut the bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.gateway import sse
from serving.gateway.errors import ApiError

_LINES = st.text(alphabet="ab é🙂:", max_size=12)
_ENDS = st.sampled_from(["\n\n", "\r\n\r\n"])


@given(
    st.lists(st.tuples(_LINES, _ENDS), max_size=6), st.lists(st.integers(1, 9), max_size=40), st.text("xy")
)
def test_cuts_of_the_network_do_not_matter(
    events: list[tuple[str, str]], cuts: list[int], unfinished: str
) -> None:
    """What is fed comes out once and in order, whole events first, and the unfinished one only at the end."""
    whole = [f"data: {line}{end}".encode() for line, end in events]
    raw = b"".join(whole) + unfinished.encode()
    buffer = sse.EventBuffer()
    out, position = [], 0
    for cut in [*cuts, len(raw)]:
        out += sse.split(buffer.feed(raw[position : position + cut]))
        position += cut
    assert out == whole
    assert buffer.flush() == unfinished.encode()


def test_boundary_that_is_cut_in_two_is_one() -> None:
    """A carriage return whose line feed is still on the way ends nothing."""
    buffer = sse.EventBuffer()
    assert buffer.feed(b"data: 1\r\n\r") == b""
    assert buffer.feed(b"\ndata: 2") == b"data: 1\r\n\r\n"
    assert buffer.flush() == b"data: 2"


def test_event_without_end_is_an_error() -> None:
    """An upstream cannot make the gateway keep more than one event's worth."""
    buffer = sse.EventBuffer()
    assert buffer.feed(b"x" * sse.MAX_EVENT_BYTES) == b""
    with pytest.raises(ApiError) as error:
        buffer.feed(b"x")
    assert error.value.status == 502


@pytest.mark.parametrize(
    ("event", "data"),
    [
        (b"data: {}\n\n", b"{}"),
        (b"data:{}\n\n", b"{}"),
        (b"event: x\r\nid: 1\r\ndata:  a\r\n\r\n", b" a"),
        (b"data: a\ndata: b\n\n", b"a\nb"),
        (b": keep-alive\n\n", b""),
        (b"event: ping\n\n", b""),
    ],
)
def test_data_of_an_event(event: bytes, data: bytes) -> None:
    """One space after the colon is no data, lines join, and comments have none (WHATWG HTML, 9.2.6)."""
    assert sse.data_of(event) == data


def test_event_is_read_back() -> None:
    """What `event` writes, `data_of` reads."""
    assert sse.event(b"{}", "response.created") == b"event: response.created\ndata: {}\n\n"
    assert sse.data_of(sse.event(b"{}")) == b"{}"


def test_flush_after_white_space_is_empty() -> None:
    """A stray line feed at the end of a stream is no event."""
    buffer = sse.EventBuffer()
    assert buffer.feed(b"data: 1\n\n") == b"data: 1\n\n"
    assert buffer.feed(b"\n") == b""
    assert buffer.flush() == b""
