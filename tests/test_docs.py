"""The commands of the documentation. Blocks of `sh` are run; of `console`, something else must run them."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from serving.settings import Settings

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]

RUN_ELSEWHERE = {
    "make serve": "loadtests/fresh_start.py",
    "make test": ".ci/run",
    "make vllm-cpu": ".ci/run",
    "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "tests/train/rollouts/test_vllm_server.py",
    "tierwise train run r2": "tests/train/rollouts/test_vllm_server.py",
    "tierwise bench gateway": ".ci/run",
    "tierwise bench disconnects": ".ci/run",
    "tierwise bench budget": "tests/loadtests/test_budget_bench.py",
    "tierwise bench frontier": "tests/loadtests/test_frontier_bench.py",
    "tierwise bench start": ".ci/run",
    "tierwise bench engine ./checkpoint --engine vllm": "tests/loadtests/test_engine_bench_vllm.py",
    "tierwise bench engine": "tests/loadtests/test_engine_bench.py",
    "tierwise bench speculation ./checkpoint --engine vllm": "tests/loadtests/test_speculation_bench_vllm.py",
    "tierwise bench speculation": "tests/loadtests/test_speculation_bench.py",
    "tierwise train eval ./checkpoint --url": "tests/train/test_served.py",
    "tierwise train base": "tests/train/test_base.py",
    "tierwise train publish": "tests/train/test_publish.py",
    "tierwise train export": "tests/train/test_publish.py",
    "tierwise distill cost-model": "tests/distill/commands/test_drafts_commands.py",
    "tierwise distill quantize": "tests/distill/commands/test_quantize_command.py",
    "tierwise distill draft": "tests/distill/commands/test_drafts_commands.py",
    "tierwise distill early-exit": "tests/distill/commands/test_early_exit_command.py",
    "tierwise distill evaluate": "tests/distill/commands/test_evaluate_and_publish.py",
    "tierwise distill line-up": "tests/distill/commands/test_line_up.py",
    "tierwise distill publish": "tests/distill/commands/test_evaluate_and_publish.py",
    "tierwise route refit": "tests/commands/test_route_refit.py",
    "tierwise registry alias": "tests/commands/test_registry_command.py",
}
"""Commands that take long or do not end, and the file that runs each."""


def blocks(language: str) -> Iterator[tuple[str, str]]:
    for page in PAGES:
        for block in re.findall(rf"```{language}\n(.*?)```", page.read_text(), re.DOTALL):
            yield page.name, block


def test_console_commands_are_run_elsewhere() -> None:
    """Every command that is only shown is run by CI, where the table here says."""
    shown = [
        line[2:].split("#")[0]
        for _, block in blocks("console")
        for line in block.splitlines()
        if line[:2] == "$ "
    ]
    assert shown
    for command in shown:
        name = next((known for known in RUN_ELSEWHERE if command.startswith(known)), None)
        assert name is not None, f"nothing runs {command!r}"
        text = (ROOT / RUN_ELSEWHERE[name]).read_text()
        words = name.split()[1:] if name.startswith("make") else name.split()
        assert all(word in text for word in words)


@pytest.mark.parametrize(("page", "block"), list(blocks("toml")))
def test_shown_configurations_load(page: str, block: str) -> None:
    """Each TOML block is a configuration, or becomes one beside the tiers of the shipped one."""
    tree = tomllib.loads(block)
    if "tiers" not in tree:
        tree = tomllib.loads((ROOT / "serving/default.toml").read_text()) | tree
    assert Settings.model_validate(tree).resolved_arms


def test_links_lead_somewhere() -> None:
    """Every relative link of a page names a file."""
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
