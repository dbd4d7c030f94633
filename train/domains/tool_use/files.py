"""Edits of a small project's files."""

from __future__ import annotations

import random
from typing import ClassVar, Final

from train.domains.base import Domain
from train.domains.tool_use.task import Reading, ToolDomain, ToolTask, calling, one_by_one
from train.domains.words import TOPICS, made_up_words


class FilesDomain(ToolDomain):
    """Level 0 changes one setting, 1 renames a word in several files, 2 also moves and deletes."""

    name: ClassVar[str] = "tool_files"
    description: ClassVar[str] = "Edit files as told; checked by the text of every file at the end."

    def draw(self, rng: random.Random, level: int) -> ToolTask:
        """As `ToolDomain.draw`."""
        keys = made_up_words(rng, 6)
        topics = rng.sample(TOPICS, 3 + level)
        files = {f"{topic}.conf": _settings(rng, keys) for topic in topics}
        return (self._setting, self._renaming, self._tidying)[level](rng, files, keys)

    def _setting(self, rng: random.Random, files: dict[str, str], keys: list[str]) -> ToolTask:
        path, key = rng.choice(list(files)), rng.choice(keys)
        old, new = _value(files[path], key), rng.randrange(1000, 10_000)
        return ToolTask(
            prompt=f"In {path}, set {key} to {new}. Change nothing else. Answer with the value that it had "
            "before.",
            tools={"files": {"files": files}},
            turns=one_by_one(
                calling("files_read", path=path),
                calling("files_replace", path=path, old=f"{key} = {old}\n", new=f"{key} = {new}\n"),
            ),
            answer=old,
            reading=Reading.NUMBER,
        )

    def _renaming(self, rng: random.Random, files: dict[str, str], keys: list[str]) -> ToolTask:
        key, [new] = rng.choice(keys), made_up_words(rng, 1, 4)
        for path in rng.sample(list(files), rng.randrange(0, 3)):
            files[path] = files[path].replace(f"{key} = {_value(files[path], key)}\n", "")
        having = [path for path in files if f"{key} = " in files[path]]
        return ToolTask(
            prompt=f"Rename the setting {key} to {new} in every file that has it; values stay as they are. "
            "Answer with the number of files changed.",
            tools={"files": {"files": files}},
            turns=one_by_one(
                calling("files_find", text=f"{key} = "),
                *(calling("files_replace", path=path, old=f"{key} = ", new=f"{new} = ") for path in having),
            ),
            answer=str(len(having)),
            reading=Reading.NUMBER,
        )

    def _tidying(self, rng: random.Random, files: dict[str, str], keys: list[str]) -> ToolTask:
        first, second, third, *_ = rng.sample(list(files), 5)
        key, [folder] = rng.choice(keys), made_up_words(rng, 1)
        total = sum(int(_value(files[path], key)) for path in (first, second))
        return ToolTask(
            prompt=f"Move {first} to {folder}/{first}, delete {third}, and write a file {folder}/total.txt "
            "that holds "
            f"nothing but the sum of {key} in {first} and {second}. Answer with the sum.",
            tools={"files": {"files": files}},
            turns=one_by_one(
                calling("files_read", path=first),
                calling("files_read", path=second),
                calling("files_move", path=first, to=f"{folder}/{first}"),
                calling("files_delete", path=third),
                calling("files_write", path=f"{folder}/total.txt", text=str(total)),
            ),
            answer=str(total),
            reading=Reading.NUMBER,
        )


def _settings(rng: random.Random, keys: list[str]) -> str:
    return "".join(f"{key} = {rng.randrange(10, 1000)}\n" for key in rng.sample(keys, len(keys)))


def _value(text: str, key: str) -> str:
    return next(line.split(" = ")[1] for line in text.splitlines() if line.startswith(f"{key} = "))


DOMAIN: Final[Domain] = FilesDomain()
