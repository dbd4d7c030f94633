"""The house rules that a machine can hold: rooms, directions, what may be imported where, who reads the environment."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ROOMS = ("router", "serving", "train", "distill", "loadtests")

TOP_LEVEL = {
    ".ci", ".gitignore", "LICENSE", "Makefile", "README.md", "distill", "docs", "helm", "loadtests", "pyproject.toml",
    "router", "serving", "tests", "tierwise.py", "train",
}  # fmt: skip

# The settings roots. Anything else gets what it needs as a parameter.
READS_ENVIRONMENT = {
    "serving/settings.py",
    "serving/settings_sources.py",
    "serving/engines/llamacpp_server.py",  # a process of its own, which gets its key this way
    "train/processes.py",  # launchers say by it which of several processes one is
}

HEAVY = {"torch", "transformers", "vllm", "peft", "datasets", "sklearn", "matplotlib"}
IMPURE = {
    "aiohttp",
    "asyncio",
    "fastapi",
    "httpx",
    "os",
    "random",
    "socket",
    "subprocess",
    "time",
    "torch",
    "urllib",
}


def python_files(*rooms: str) -> Iterator[Path]:
    for room in rooms:
        yield from sorted((ROOT / room).rglob("*.py"))


def imports_of(path: Path) -> set[str]:
    tree = ast.parse(path.read_text())
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    return names | {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}


def tracked() -> list[str]:
    return subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()


def test_top_level_is_the_fixed_one() -> None:
    """The repository's first page is what the project's charter says, and nothing else."""
    assert {name.split("/")[0] for name in tracked()} == TOP_LEVEL


def test_rooms_import_in_one_direction() -> None:
    """import-linter's contracts in pyproject.toml hold."""
    linter = Path(sys.executable).parent / "lint-imports"
    result = subprocess.run([linter], cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout


def test_router_is_pure() -> None:
    """What decides has no I/O, clock, or randomness of its own, so that every decision can be replayed."""
    for path in python_files("router"):
        roots = {name.split(".")[0] for name in imports_of(path)}
        assert not roots & IMPURE, f"{path.relative_to(ROOT)} imports {roots & IMPURE}"


def test_serving_needs_no_training_library() -> None:
    """No module of serving or router imports torch or its kin at its top, nor names one in its dependencies."""
    for path in python_files("router", "serving"):
        tree = ast.parse(path.read_text())
        top = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
        names = {alias.name for node in top if isinstance(node, ast.Import) for alias in node.names}
        names |= {node.module or "" for node in top if isinstance(node, ast.ImportFrom)}
        assert not {name.split(".")[0] for name in names} & HEAVY, path
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert not {line.split(">")[0].split("=")[0].strip() for line in project["dependencies"]} & HEAVY


@pytest.mark.parametrize("path", list(python_files(*ROOMS)), ids=lambda path: str(path.relative_to(ROOT)))
def test_only_settings_roots_read_the_environment(path: Path) -> None:
    """`os.environ` and `getenv` appear where settings are resolved, and nowhere else."""
    name = str(path.relative_to(ROOT))
    if name in READS_ENVIRONMENT:
        return
    reads = [
        node.lineno
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr in {"environ", "getenv", "environb"}
    ]
    assert not reads, f"{name} reads the environment on lines {reads}"


def test_nothing_is_called_utils() -> None:
    """A module is named for what it is."""
    vague = {"utils", "util", "helpers", "common", "misc", "manager", "base_utils"}
    assert not [path for path in python_files(*ROOMS) if path.stem in vague]


def test_pinned_versions_satisfy_the_declared_ones() -> None:
    """Every dependency that pyproject.toml names has one exact version in the constraints file."""
    pins = {
        line.split("==")[0].lower()
        for line in (ROOT / ".ci/constraints.txt").read_text().splitlines()
        if "==" in line
    }
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = [
        *project["dependencies"],
        *(d for extra in project["optional-dependencies"].values() for d in extra),
    ]
    names = {line.split(">")[0].split("=")[0].split("[")[0].strip().lower() for line in declared}
    assert not {name for name in names if name not in pins and name.replace("-", "_") not in pins}


def test_readme_maps_every_file() -> None:
    """The file map of the README says of each module what the module says of itself."""
    sys.path.insert(0, str(ROOT / "tests"))
    try:
        from readme_map import with_map
    finally:
        sys.path.pop(0)
    readme = (ROOT / "README.md").read_text()
    assert with_map(readme) == readme, "run `python tests/readme_map.py`"


def test_nothing_committed_names_this_workplace() -> None:
    """No tracked text file names a path or a tool of the machine that it was written on."""
    forbidden = ("/work" + "/", "/tmp" + "/lab", ".lib" + "rary")
    for name in tracked():
        path = ROOT / name
        if path.is_file() and path.stat().st_size < 1_000_000:
            text = path.read_bytes()
            assert not [word for word in forbidden if word.encode() in text], name
