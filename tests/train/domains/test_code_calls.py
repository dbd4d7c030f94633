"""Untrusted functions: what they return is brought back, and no way of cheating makes wrong values right."""

from __future__ import annotations

import pytest

from train.domains.base import ErrorClass
from train.domains.code import calls as calling
from train.domains.code.calls import Calls, Result, Target, call, is_same
from train.domains.code.judging import judge_function
from train.sandbox.errors import UnavailableError
from train.sandbox.limits import Limits
from train.sandbox.probe import probe
from train.verifiers.worker import _failed

pytestmark = pytest.mark.skipif(probe().isolation is None, reason="nothing isolates here")

CASES = [[[2], 4], [[1234], 1522756], [[-3], 9]]
RIGHT = "def square(x):\n    return x * x"
CHEATS = {
    "nothing": "",
    "no function": "print('ok')",
    "a broken import": f"import nothing_of_that_name\n{RIGHT}",
    "a constant": "def square(x):\n    return 4",
    "the argument": "def square(x):\n    return x",
    "another type": "def square(x):\n    return float(x * x)",
    "a truth for a number": "def square(x):\n    return True",
    "None": "def square(x):\n    pass",
    "an early exit": f"import sys\nsys.exit(0)\n{RIGHT}",
    "an exit at once": f"import os\nos._exit(0)\n{RIGHT}",
    "an exit in the call": "import os\ndef square(x):\n    os._exit(0)",
    "a SystemExit in the call": "import sys\ndef square(x):\n    sys.exit(0)",
    "a signal": "import os, signal\ndef square(x):\n    os.kill(os.getpid(), signal.SIGKILL)",
    "a loop": "def square(x):\n    while True: pass",
    "an object that is equal to all": (
        "class Any(int):\n    def __eq__(self, other): return True\n    __hash__ = int.__hash__\n"
        "    def __repr__(self): return '4'\n"
        "def square(x):\n    return Any(0)"
    ),
    "an object that cannot be sent": "def square(x):\n    return object()",
    "a result that it prints": 'def square(x):\n    print(\'{"results": [{"value": 4}]}\')\n    return 0',
    "results printed in every way, then an exit": (
        "import os, sys\n"
        'line = \'{"results": [{"value": 4}, {"value": 4}, {"value": 4}]}\\n\'\n'
        "for fd in range(3, 20):\n    try: os.write(fd, line.encode())\n    except OSError: pass\n"
        "os.write(1, line.encode())\nprint(line, flush=True)\nos._exit(0)\n"
        f"{RIGHT}"
    ),
    "a rewritten json": (
        'import json\njson.dumps = lambda value: \'{"results": "all right"}\'\ndef square(x):\n    return 0'
    ),
    "results rewritten in the caller": (
        "import sys\ndef square(x):\n"
        "    frame = sys._getframe(1)\n    frame.f_globals['answer'] = {'results': []}\n"
        "    frame.f_globals['orders']['calls'].clear()\n    return 0"
    ),
    "a rewritten caller": (
        "import os\nfor name in os.listdir('.'):\n    open(name, 'w').write('print(\"passed\")')\n"
        "def square(x):\n    return 0"
    ),
    "what was expected, searched for everywhere": (
        "import gc, os, sys\n"
        "def square(x):\n"
        "    for thing in gc.get_objects():\n"
        "        if isinstance(thing, dict) and 'expected' in thing: return thing['expected']\n"
        "    for frame in sys._current_frames().values():\n"
        "        while frame:\n"
        "            for name, value in {**frame.f_globals, **frame.f_locals}.items():\n"
        "                if 'expect' in name: return value\n"
        "            frame = frame.f_back\n"
        "    for path, _, names in os.walk('.'):\n"
        "        for name in names:\n"
        "            if name.endswith(('.json', '.txt')): return int(open(os.path.join(path, name)).read())\n"
        "    return 0"
    ),
    "a flood": "def square(x):\n    print('9' * 10_000_000)\n    return 0",
    "a second set of results behind the mark": (
        "import os, sys\n"
        "def square(x):\n"
        "    g = sys._getframe(1).f_globals\n"
        "    os.write(g['results'], b'\\n' + g['mark'] + b'{\"results\": [{\"value\": 1}]}\\n')\n"
        "    return x * x"
    ),
}


def test_a_right_function_passes() -> None:
    """With and without a fence, with prints of its own and what it imports."""
    for text in (RIGHT, f"Here it is:\n```python\n{RIGHT}\n```", f"import math\nprint('hello')\n{RIGHT}"):
        assert judge_function(text, "square", CASES).passed


@pytest.mark.parametrize("cheat", CHEATS, ids=list(CHEATS))
def test_no_cheat_passes(cheat: str) -> None:
    """Whatever code does beside returning the right values earns nothing, and the verdict is no error."""
    verdict = judge_function(CHEATS[cheat], "square", CASES, limits=Limits(wall_s=2.5, cpu_s=2))
    assert (verdict.score, verdict.passed, verdict.error) == (0.0, False, None)
    assert verdict.evidence
    assert "1522756" not in verdict.evidence


def test_no_cases_are_nothing_passed() -> None:
    """A function that was never called has passed nothing, be it right or not."""
    assert not judge_function(RIGHT, "square", []).passed


def test_evidence_tells_what_went_wrong() -> None:
    """The line and the error of what was raised; the value that was wrong; that it took too long."""
    raised = judge_function("def square(x):\n    return x * y", "square", CASES).evidence
    assert "NameError: name 'y' is not defined" in raised
    assert 'File "solution.py", line 2, in square' in raised
    assert judge_function("def square(x):\n    return 7", "square", CASES).evidence.startswith(
        "square(2) returned 7"
    )
    slow = judge_function("def square(x):\n    while True: pass", "square", CASES, limits=Limits(wall_s=0.5))
    assert slow.evidence == "it ran out of time"


def test_large_arguments_arrive_whole() -> None:
    """Half a megabyte of arguments is read to its end, in each of several runs in one start."""
    values = list(range(80_000))
    found = call({"m.py": "def f(v):\n    return sum(v)"}, [Target("m", "f", [[values]])] * 3)
    assert found == [Calls((Result(sum(values), ""),), "")] * 3


def test_sameness_is_by_type_and_value() -> None:
    """True is not 1, 1.0 is not 1, and floats are compared to a share of their size."""
    assert is_same([1, ["a", None]], [1, ["a", None]])
    assert is_same(1 / 3, 0.33333333333)
    assert is_same(2, 2.0)
    for given, expected in (
        (True, 1),
        (1, True),
        (1.0, 1),
        ([1], [1, 2]),
        ("1", 1),
        (0.3334, 1 / 3),
        (True, 1.0),
    ):
        assert not is_same(given, expected)
    assert not is_same(float("nan"), 1.0)


def test_without_a_sandbox_there_is_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    """Code is not run where nothing isolates, and the worker makes UNAVAILABLE of it."""

    def refuse(*_: object) -> None:
        raise UnavailableError("nothing isolates")

    monkeypatch.setattr(calling, "run_cases", refuse)
    with pytest.raises(UnavailableError) as raised:
        judge_function(RIGHT, "square", CASES)
    assert _failed(ErrorClass.UNAVAILABLE, raised.value)["error"] == ErrorClass.UNAVAILABLE
