"""The README's file map, made from the first line of each module's docstring.

`python tests/readme_map.py` writes it into README.md; `test_architecture` fails where it is out of date.
"""

from __future__ import annotations

import ast
import subprocess
from pathlib import Path

ROOT = Path(__file__).parent.parent
BEGIN, END = "<!-- file map: written by tests/readme_map.py -->", "<!-- end of file map -->"
ROOMS = ("router", "serving", "loadtests", "train", "distill")


def file_map() -> str:
    """One table a folder: each module and what it says of itself."""
    listed = subprocess.run(
        ["git", "ls-files", "*.py"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    folders: dict[str, list[str]] = {}
    for name in sorted(listed):
        path = Path(name)
        if path.parts[0] in ROOMS and (ROOT / name).exists():
            folders.setdefault(str(path.parent), []).append(name)
    lines = ["| `tierwise.py` | " + _about("tierwise.py") + " |"]
    for folder in sorted(folders, key=lambda folder: (ROOMS.index(folder.split("/")[0]), folder)):
        about = _about(f"{folder}/__init__.py") if (ROOT / folder / "__init__.py").exists() else ""
        lines.append(f"| **`{folder}/`** | **{about}** |")
        lines += [
            f"| `{name}` | {_about(name)} |" for name in folders[folder] if not name.endswith("__init__.py")
        ]
    return "\n".join(["| file | what it is |", "|---|---|", *lines])


def with_map(readme: str) -> str:
    """`readme` with the map put between its marks."""
    head, rest = readme.split(BEGIN)
    return f"{head}{BEGIN}\n{file_map()}\n{END}{rest.split(END)[1]}"


def _about(name: str) -> str:
    docstring = ast.get_docstring(ast.parse((ROOT / name).read_text())) or ""
    return docstring.split("\n")[0].replace("|", "\\|")


if __name__ == "__main__":
    readme = ROOT / "README.md"
    readme.write_text(with_map(readme.read_text()))
