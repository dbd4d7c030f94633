"""The machine and the software that a measurement ran on: without them a number means little."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

_PACKAGES = ("tierwise", "uvloop", "httptools", "uvicorn", "fastapi", "aiohttp", "orjson")


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """One machine, described for a report."""

    cpu: str
    num_cores: int
    """Those this process may use."""
    system: str
    python: str
    versions: dict[str, str]

    def line(self) -> str:
        """The description on one line."""
        packages = ", ".join(f"{name} {number}" for name, number in self.versions.items())
        return f"{self.cpu}, {self.num_cores} cores, {self.system}, Python {self.python}, {packages}"


def this_machine() -> Machine:
    """Describe the machine this runs on. Packages that are not installed are left out."""
    versions: dict[str, str] = {}
    for package in _PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    affinity = getattr(os, "sched_getaffinity", None)
    return Machine(
        cpu=_cpu_model(),
        num_cores=len(affinity(0)) if affinity else os.cpu_count() or 1,
        system=f"{platform.system()} {platform.release()}",
        python=platform.python_version(),
        versions=versions,
    )


def package_version(name: str) -> str:
    """A package with its version, where it is installed."""
    try:
        return f"{name} {version(name)}"
    except PackageNotFoundError:
        return name


def _cpu_model() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    return platform.processor() or platform.machine()
