"""Bodies are changed in the client's own bytes, and mean what the same change to the parsed object would mean."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from serving.gateway.body import REMOVED, parse_object, require, splice
from serving.gateway.errors import ApiError

_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**6), 10**6) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
_NAMES = st.sampled_from(["a", "b", "c", '"', "\\", "{"])


def changed(raw: bytes, replacements: dict[str, Any]) -> Any:
    """What `splice` must amount to."""
    parsed = json.loads(raw)
    for name, value in replacements.items():
        if value is REMOVED:
            parsed.pop(name, None)
        else:
            parsed[name] = value
    return parsed


@settings(max_examples=500, deadline=None)
@given(
    st.dictionaries(_NAMES, _VALUES),
    st.dictionaries(_NAMES, _VALUES | st.just(REMOVED)),
    st.sampled_from([None, 1]),
    st.booleans(),
)
def test_splice_means_the_same_change_to_the_object(
    fields: dict[str, Any], replacements: dict[str, Any], indent: int | None, is_ascii: bool
) -> None:
    """However the body is written, the spliced bytes parse to the object with the same members replaced."""
    raw = json.dumps(fields, indent=indent, ensure_ascii=is_ascii).encode()
    assert json.loads(splice(raw, json.loads(raw), replacements)) == changed(raw, replacements)


def test_splice_keeps_every_other_byte() -> None:
    """Numbers, spaces, escapes and the order of members stay as the client wrote them."""
    raw = b'{ "seed" : 1e2,\t"x":1.10, "model":"auto" ,"y":"\\u00e9", "z":{"model":"a"} }'
    spliced = splice(raw, json.loads(raw), {"model": "full"})
    assert spliced == raw.replace(b'"model":"auto"', b'"model":"full"')


def test_name_inside_a_string_or_an_object_is_not_the_member() -> None:
    """Only the top-level member is replaced, whatever texts and inner objects hold its name."""
    raw = b'{"a":"\\"model\\": 1","b":{"model":2},"model":3,"c":[{"model":4}]}'
    spliced = splice(raw, json.loads(raw), {"model": 5})
    assert spliced == raw.replace(b'"model":3', b'"model":5')


def test_name_written_with_escapes_is_found() -> None:
    """A member whose name is escaped is the same member."""
    raw = b'{"mod\\u0065l":1,"b":{"model":2}}'
    assert json.loads(splice(raw, json.loads(raw), {"model": 5})) == {"model": 5, "b": {"model": 2}}


def test_member_given_twice_is_replaced_twice() -> None:
    """An engine that takes the first of two equal names and one that takes the last see the same value."""
    assert splice(b'{"n":1,"n":2}', {"n": 2}, {"n": 3}) == b'{"n":3,"n":3}'


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b'{"a":1}', b"{}"),
        (b'{"a":1,"b":2}', b'{"b":2}'),
        (b'{"b":2,"a":1}', b'{"b":2}'),
        (b'{"b":2 , "a":[1,{}] }', b'{"b":2 }'),
        (b'{"b":2}', b'{"b":2}'),
    ],
)
def test_removed_member_takes_one_comma_along(raw: bytes, expected: bytes) -> None:
    """What is left of an object is an object, wherever the member stood."""
    assert splice(raw, json.loads(raw), {"a": REMOVED}) == expected


def test_member_is_added_to_an_empty_object() -> None:
    """No comma before the brace."""
    assert splice(b"{ }", {}, {"model": "full"}) == b'{"model":"full" }'


@pytest.mark.parametrize(
    "raw", [b"", b"{", b"[1]", b'"x"', b"null", b'{"a":NaN}', b'{"a":"\\ud800"}', b"\xff"]
)
def test_body_that_is_no_object_is_refused(raw: bytes) -> None:
    """A 400 in OpenAI's words, not an exception of the parser."""
    with pytest.raises(ApiError) as refused:
        parse_object(raw)
    assert (refused.value.status, refused.value.code) == (400, "invalid_json")


@pytest.mark.parametrize(
    ("value", "kind", "is_right"),
    [
        (1, int, True),
        (True, int, False),
        (True, bool, True),
        (1, bool, False),
        (True, (int, bool), True),
        (1.5, (int, float), True),
        ("1", int, False),
        (None, int, True),
    ],
)
def test_require_tells_booleans_from_numbers(value: Any, kind: Any, is_right: bool) -> None:
    """`true` is no number, and null is as good as absent."""
    if is_right:
        assert require({"n": value}, "n", kind, "right") is value
    else:
        with pytest.raises(ApiError) as refused:
            require({"n": value}, "n", kind, "right")
        assert (refused.value.param, refused.value.code) == ("n", "invalid_type")
