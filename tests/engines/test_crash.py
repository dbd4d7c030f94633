"""A crash is told in words that name what to do."""

from __future__ import annotations

import signal

import pytest

from serving.engines.crash import describe_end

# Lines that llama.cpp, Python, or the loader really print.
MISSING = "ModuleNotFoundError: No module named 'xllamacpp'"
ARCHITECTURE = "E llama_model_load: error loading model: unknown model architecture: 'nextgen'"
NOT_LOADED = "E srv    load_model: failed to load model, 'full.gguf'"
BOUND = "E srv         start: couldn't bind HTTP server socket, hostname: 127.0.0.1, port: 9000"
BUFFER = "E ggml_backend_cpu_buffer_type_alloc_buffer: failed to allocate buffer of size 99999999999"


@pytest.mark.parametrize(
    ("returncode", "lines", "expected"),
    [
        (1, [NOT_LOADED], "ended with status 1: the model file cannot be loaded"),
        (1, [NOT_LOADED], "tierwise registry verify"),
        (1, [ARCHITECTURE, NOT_LOADED], "does not know the model's architecture: upgrade xllamacpp"),
        (1, [BUFFER, NOT_LOADED], "not enough memory: lower the tier's engine.slots"),
        (1, [BOUND], "another program took the port first"),
        (1, [MISSING], "pip install xllamacpp"),
        (1, ["terminate called after throwing an instance of 'std::bad_alloc'"], "not enough memory"),
        (
            -signal.SIGKILL,
            ["busy"],
            "killed by SIGKILL: by an operator, or by the kernel because memory ran out",
        ),
        (-signal.SIGILL, [], "killed by SIGILL: the CPU lacks an instruction"),
        (-signal.SIGSEGV, [], "killed by SIGSEGV: the engine has a fault"),
        (-signal.SIGTERM, [], "killed by SIGTERM"),
        (-40, [], "killed by signal 40"),
        (3, [], "ended with status 3"),
    ],
)
def test_words(returncode: int, lines: list[str], expected: str) -> None:
    """Status or signal by name, the cause where the last lines show it, and the remedy."""
    assert expected in describe_end(returncode, lines)


def test_the_last_lines_are_quoted() -> None:
    """What no table foresaw can still be read."""
    assert describe_end(7, ["one", "two"]) == "ended with status 7; it last said:\n  one\n  two"
