"""A model of a few kilobytes, packaged as the released one is, and a report that remembers."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from gguf import GGMLQuantizationType, GGUFWriter, LlamaFileType, quantize

from serving.bringup.packaged import PackagedModel
from serving.registry.store import Store


@dataclass
class Remembered:
    """A report that keeps what it is told."""

    is_terminal: bool = False
    lines: list[str] = field(default_factory=list)
    tracked: dict[str, list[int]] = field(default_factory=dict)

    def say(self, line: str) -> None:
        self.lines.append(line)

    @contextmanager
    def track(self, label: str, total: int, unit: str) -> Iterator[Callable[[int], None]]:
        self.tracked[label] = []
        yield self.tracked[label].append


@dataclass(frozen=True)
class Toy:
    """The packaged toy: what is known of it, and where its files lie."""

    model: PackagedModel
    gguf: Path
    wheel: Path


@pytest.fixture
def report() -> Remembered:
    return Remembered()


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "registry")


@pytest.fixture(scope="session")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Toy:
    directory = tmp_path_factory.mktemp("toy")
    gguf = directory / "Toy.Q4_1.gguf"
    _write_gguf(gguf)
    wheel = directory / "toy_model-0.1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as package:
        package.write(gguf, f"toy_model/{gguf.name}")
        package.writestr(
            "toy_model-0.1.dist-info/METADATA", "Metadata-Version: 2.1\nName: toy-model\nVersion: 0.1\n"
        )
        package.writestr(
            "toy_model-0.1.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        package.writestr("toy_model-0.1.dist-info/RECORD", "")
    model = PackagedModel(
        name="toy",
        licence="MIT",
        package="toy-model",
        package_version="0.1",
        wheel_sha256=hashlib.sha256(wheel.read_bytes()).hexdigest(),
        wheel_bytes=wheel.stat().st_size,
        member=f"toy_model/{gguf.name}",
        gguf_sha256=hashlib.sha256(gguf.read_bytes()).hexdigest(),
        gguf_bytes=gguf.stat().st_size,
        quantization="Q4_1",
    )
    return Toy(model, gguf, wheel)


def _write_gguf(path: Path) -> None:
    writer = GGUFWriter(path, "llama")
    writer.add_file_type(LlamaFileType.MOSTLY_Q4_1)
    writer.add_chat_template("packaged template")
    writer.add_token_list(["<s>", "x"])
    random = np.random.default_rng(0)
    kinds = {"token_embd.weight": GGMLQuantizationType.Q8_0, "blk.0.attn_q.weight": GGMLQuantizationType.Q4_1}
    for name, kind in kinds.items():
        writer.add_tensor(name, quantize(random.standard_normal((64, 64), np.float32), kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
