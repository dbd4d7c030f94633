"""The tools of one item as a policy meets them: calls are checked, counted, done or refused, and can be taken back.

A call that fails, for whatever reason, leaves the state as it was, also where a tool had got half way. It counts
towards the budget all the same, so that guessing is not free.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Self

from train.domains.base import Environment
from train.tools.base import Operation, Tool, ToolError, ToolResult
from train.tools.kinds import KINDS
from train.tools.wire import arguments_of
from train.transcript import JsonValue, ToolCall


class BoundedToolset:
    """A `tools.Toolset` with a budget of calls.

    Args:
        tools: of different names.
        max_calls: what is called beyond it is refused, and is no call.
    """

    def __init__(self, tools: Iterable[Tool], *, max_calls: int) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._operations: dict[str, tuple[str, Operation]] = {
            f"{tool.name}_{operation.name}": (tool.name, operation)
            for tool in self._tools.values()
            for operation in tool.operations
        }
        self._undo: list[Tool] = []
        self.max_calls = max_calls
        self.num_calls = 0

    @classmethod
    def of(cls, environment: Environment) -> Self:
        """The tools as an item begins with them."""
        tools = [KINDS[name].from_state(state) for name, state in environment.tools.items()]
        return cls(tools, max_calls=environment.max_calls)

    @property
    def is_spent(self) -> bool:
        """Whether any further call is refused."""
        return self.num_calls >= self.max_calls

    def schemas(self) -> list[dict[str, JsonValue]]:
        """As `Toolset.schemas`."""
        return [
            {
                "type": "function",
                "function": {
                    "name": name,
                    "description": operation.description,
                    "parameters": dict(operation.parameters),
                },
            }
            for name, (_, operation) in self._operations.items()
        ]

    def call(self, call: ToolCall) -> ToolResult:
        """As `Toolset.call`."""
        if self.is_spent:
            return ToolResult(False, f"all {self.max_calls} calls are spent; answer now")
        self.num_calls += 1
        try:
            name, operation = self._known(call.name)
            arguments = arguments_of(call.arguments, operation.parameters)
        except ToolError as error:
            return ToolResult(False, str(error))
        return self._done(self._tools[name], operation, arguments)

    def undo(self) -> bool:
        """As `Toolset.undo`."""
        if not self._undo:
            return False
        before = self._undo.pop()
        self._tools[before.name] = before
        return True

    def state(self) -> dict[str, JsonValue]:
        """As `Toolset.state`."""
        return {name: tool.state() for name, tool in self._tools.items()}

    def copy(self) -> Self:
        """Another that stands as this one does, with its calls counted and its past to take back."""
        twin = type(self)(map(_copied, self._tools.values()), max_calls=self.max_calls)
        twin.num_calls = self.num_calls
        twin._undo = [_copied(tool) for tool in self._undo]
        return twin

    def _known(self, name: str) -> tuple[str, Operation]:
        if name not in self._operations:
            near = get_close_matches(name[:100], self._operations, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(self._operations)}"
            raise ToolError(f"there is no function {name[:60]!r}; {hint}")
        return self._operations[name]

    def _done(self, tool: Tool, operation: Operation, arguments: dict[str, JsonValue]) -> ToolResult:
        before = tool.state()
        try:
            result = tool.apply(operation.name, arguments)
        except ToolError as error:
            result = ToolResult(False, str(error))
        if tool.state() != before:
            earlier = type(tool).from_state(before)
            if result.is_ok:
                self._undo.append(earlier)
            else:
                self._tools[tool.name] = earlier
        return result


def _copied(tool: Tool) -> Tool:
    return type(tool).from_state(tool.state())
