"""Text and modalities of message content, in every form in which the protocols write it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import orjson

_MODALITY_OF_PART = {
    "image_url": "image",
    "input_image": "image",
    "image": "image",
    "input_audio": "audio",
    "audio": "audio",
    "file": "file",
    "input_file": "file",
    "video_url": "video",
}


@dataclass(slots=True)
class Conversation:
    """What a list of messages amounts to, collected message by message."""

    turns: list[str] = field(default_factory=list)
    system: list[str] = field(default_factory=list)
    modalities: set[str] = field(default_factory=lambda: {"text"})
    num_chars: int = 0
    is_tool_loop: bool = False

    def add(self, role: Any, content: Any) -> None:
        """Count one message in. An unknown role counts as the assistant's: it is read, and asks for nothing."""
        text = self._text(content)
        self.num_chars += len(text)
        self.is_tool_loop = role in ("tool", "function")
        if role == "user":
            self.turns.append(text)
        elif role in ("system", "developer"):
            self.system.append(text)

    def add_json(self, value: Any) -> None:
        """Count in something that the engine will write into the prompt as JSON: tools, a schema, a call."""
        self.num_chars += len(orjson.dumps(value))

    def _text(self, content: Any) -> str:
        if content is None:
            return ""
        if isinstance(content, str):
            return content
        if isinstance(content, list):
            return "\n".join(filter(None, map(self._part, content)))
        return str(content)

    def _part(self, part: Any) -> str:
        if isinstance(part, str):
            return part
        if not isinstance(part, dict):
            return ""
        kind = part.get("type")
        if isinstance(kind, str) and (modality := _MODALITY_OF_PART.get(kind)):
            self.modalities.add(modality)
            return ""
        text = part.get("text") or part.get("refusal") or part.get("content") or ""
        return text if isinstance(text, str) else self._text(text)
