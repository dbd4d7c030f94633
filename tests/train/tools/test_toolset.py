"""The toolset: what is wrong is refused with evidence, and changes nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from train.domains.base import Environment
from train.tools.kinds import KINDS
from train.tools.toolset import BoundedToolset
from train.transcript import JsonValue, ToolCall

STATES: dict[str, dict[str, JsonValue]] = {
    "board": {"tasks": {"a": {"hours": 2}, "b": {"hours": 1, "needs": ["a"]}}, "workers": ["x", "y"]},
    "cad": {"parts": {"a": ["box", [1, 2, 3]], "b": ["sphere", 2]}},
    "calculator": {},
    "calendar": {"events": [{"id": 1, "title": "a", "day": "Monday", "start": "09:00", "end": "10:00"}]},
    "files": {"files": {"a": "one\ntwo", "b/c": "three"}},
    "graph": {"edges": [["a", "b", 2], ["b", "x", 3]]},
    "search": {"documents": [{"id": "a", "title": "x", "text": "one two"}]},
    "service": {
        "users": {"1": {"name": "a", "city": "x"}},
        "products": {"a": {"price": 2, "stock": 3}},
        "orders": {"1": {"user_id": 1, "sku": "a", "quantity": 1}},
        "max_burst": 3,
    },
    "sql": {
        "tables": {"a": {"columns": [["x", "INTEGER"], ["y", "TEXT"]], "rows": [[1, "one"], [2, "two"]]}}
    },
    "store": {"entries": {"a": "one", "b": "two"}},
}
SPECIMENS = ("a", "b", "x", "1", "", "09:00", "10:15", "Monday", "/orders/1", "/orders", "POST", "DELETE")
STATEMENTS = (
    "SELECT * FROM a",
    "DELETE FROM a",
    "UPDATE a SET x = x + 1",
    "DROP TABLE a",
    "INSERT INTO a VALUES (",
)


def toolset(max_calls: int = 1_000) -> BoundedToolset:
    return BoundedToolset.of(Environment(STATES, max_calls))


def call(tools: BoundedToolset, name: str, **arguments: Any) -> tuple[bool, str]:
    result = tools.call(ToolCall(name, json.dumps(arguments)))
    return result.is_ok, result.content


def values(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Values that often fit a schema, and often do not."""
    fitting: dict[str, st.SearchStrategy[Any]] = {
        "string": st.sampled_from((*SPECIMENS, *STATEMENTS)) | st.text(max_size=8),
        "integer": st.integers(-2, 1_100),
        "number": st.integers(-2, 5) | st.floats(allow_nan=False, width=32),
        "boolean": st.booleans(),
        "array": st.lists(st.deferred(lambda: values(schema["items"])), max_size=4),
        "object": st.deferred(lambda: objects(schema)),
    }
    enum = st.sampled_from(schema["enum"]) if "enum" in schema else fitting[schema["type"]]
    return enum | fitting[schema["type"]]


def objects(schema: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    properties = {name: values(member) for name, member in schema["properties"].items()}
    required = {name: each for name, each in properties.items() if name in schema["required"]}
    optional = {name: each for name, each in properties.items() if name not in schema["required"]}
    return st.fixed_dictionaries(required, optional=optional)


@st.composite
def calls(draw: st.DrawFn) -> ToolCall:
    schema: Any = draw(st.sampled_from(toolset().schemas()))["function"]
    arguments = draw(objects(schema["parameters"]))
    return ToolCall(schema["name"], json.dumps(arguments)[: draw(st.sampled_from((None, None, None, 5)))])


def test_the_specimen_states_cover_every_kind() -> None:
    """A new kind of tool must be put under the laws below."""
    assert STATES.keys() == KINDS.keys()


@settings(max_examples=200, deadline=None)
@given(st.lists(calls(), max_size=8))
def test_erroneous_and_reading_calls_change_nothing_and_changes_can_be_taken_back(
    made: list[ToolCall],
) -> None:
    """No failure changes the state, nor does reading, and undoing all changes leads to the beginning."""
    tools = toolset()
    beginning = tools.state()
    reading = {
        f"{tool.name}_{each.name}" for tool in KINDS.values() for each in tool.operations if each.is_reading
    }
    for each in made:
        before = tools.state()
        result = tools.call(each)
        assert json.loads(json.dumps(tools.state())) == tools.state()
        if not result.is_ok or each.name in reading:
            assert tools.state() == before
        if not result.is_ok:
            assert result.content
    while tools.undo():
        pass
    assert tools.state() == beginning


@settings(max_examples=60, deadline=None)
@given(st.lists(calls(), max_size=8))
def test_the_same_calls_come_to_the_same(made: list[ToolCall]) -> None:
    """Tools are deterministic, and a state read from JSON stands as the tool did."""
    one, other = toolset(), toolset()
    for each in made:
        before = Environment(json.loads(json.dumps(one.state())), 1_000)
        result = one.call(each)
        assert BoundedToolset.of(before).call(each) == result
        assert other.call(each) == result
    assert one.state() == other.state()


@pytest.mark.parametrize(
    ("name", "arguments", "evidence"),
    [
        ("store_gett", "{}", "did you mean store_get?"),
        ("nothing", "{}", "there are: "),
        ("store_get", "{", "arguments are not JSON"),
        ("store_get", "[]", "arguments: expected an object"),
        ("store_get", "{}", "arguments: 'key' is missing"),
        ("store_get", '{"key": 1}', "arguments.key: expected a string, got 1"),
        ("store_get", '{"key": "a", "key": "b"}', "a member is named twice"),
        ("store_get", '{"key": "a", "more": 1}', 'unknown member "more"; there are: key'),
        ("store_get", '{"key": ""}', "arguments.key: its length 0 is below 1"),
        ("calendar_cancel", '{"id": true}', "arguments.id: expected an integer, got true"),
        ("calendar_cancel", '{"id": 1.5}', "arguments.id: expected an integer, got 1.5"),
        ("calendar_cancel", '{"id": 0}', "arguments.id: 0 is below 1"),
        ("calendar_list", '{"day": "Sunday"}', "expected one of Monday"),
        ("cad_move", '{"name": "a", "by": [1, 2]}', "arguments.by: its length 2 is below 3"),
        ("cad_move", '{"name": "a", "by": [1, 2, "3"]}', "arguments.by[2]: expected a number"),
        ("cad_move", '{"name": "a", "by": [1, 2, 1e999]}', "a number is too large"),
        ("cad_move", '{"name": "a", "by": [1, 2, NaN]}', "NaN is no JSON"),
        ("store_get", "[" * 100_000, "100000 characters"),
        ("store_get", "[" * 5_000, "nested more than"),
        (
            "service_request",
            '{"method": "POST", "path": "/orders", "body": {"sku": 3}}',
            "arguments.body.sku",
        ),
    ],
)
def test_evidence_says_what_is_wrong(name: str, arguments: str, evidence: str) -> None:
    """Whatever is wrong with a call, the place and the remedy are in what comes back."""
    result = toolset().call(ToolCall(name, arguments))
    assert not result.is_ok
    assert evidence in result.content


def test_what_is_beyond_the_budget_is_refused() -> None:
    """Failed calls count; the call after the last is refused and changes nothing."""
    tools = toolset(max_calls=2)
    assert call(tools, "store_set", key="new", value="1")[0]
    assert not call(tools, "store_get", key="missing")[0]
    assert tools.is_spent
    assert call(tools, "store_set", key="new", value="2") == (False, "all 2 calls are spent; answer now")
    assert tools.num_calls == 2
    assert call(tools.copy(), "store_get", key="new") == (False, "all 2 calls are spent; answer now")


def test_undo_takes_back_the_last_change_first() -> None:
    """Changes are taken back in the opposite order, over several tools; reading is passed over."""
    tools = toolset()
    call(tools, "store_set", key="a", value="2")
    call(tools, "graph_cut", one="b", other="a")
    call(tools, "store_get", key="a")
    assert tools.undo()
    assert call(tools, "graph_neighbours", node="a") == (True, '{"b": 2}')
    assert tools.undo()
    assert call(tools, "store_get", key="a") == (True, "one")
    assert not tools.undo()


def test_a_copy_goes_its_own_way() -> None:
    """What is done with a copy does not touch the original, nor what the original came from."""
    tools = toolset()
    call(tools, "store_set", key="a", value="2")
    twin = tools.copy()
    call(twin, "store_delete", key="a")
    assert call(tools, "store_get", key="a") == (True, "2")
    assert twin.undo()
    assert twin.undo()
    assert not twin.undo()
    assert STATES["store"] == {"entries": {"a": "one", "b": "two"}}
    assert tools.undo()


def test_schemas_are_openais() -> None:
    """Every function has a name that clients take, a description, and a closed schema of its arguments."""
    for schema in toolset().schemas():
        function: Any = schema["function"]
        assert schema["type"] == "function"
        assert function["name"].replace("_", "").isalnum()
        assert len(function["name"]) <= 64
        assert function["description"].endswith(".")
        assert function["parameters"]["additionalProperties"] is False
