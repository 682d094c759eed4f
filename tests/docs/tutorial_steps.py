"""Read the steps of docs/tutorial.md: the files to write, the commands to run, and what they must print."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

TUTORIAL = Path(__file__).parents[2] / "docs" / "tutorial.md"
STEP = re.compile(r"^```(?P<language>\w+)\n(?P<text>.*?)^```|^<!-- test: (?P<action>.+?) -->", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"^(?P<added>Add to the end of )?`(?P<path>[\w./-]+)`:\s*\Z", re.MULTILINE)


@dataclass(frozen=True)
class WriteFile:
    """Write the text to a file of the project, or add it to the end."""

    path: str
    text: str
    added: bool

    def apply(self, project: Path) -> None:
        target = project / self.path
        target.parent.mkdir(parents=True, exist_ok=True)
        before = target.read_text() + "\n\n" if self.added else ""
        target.write_text(before + self.text)


@dataclass(frozen=True)
class RunCommands:
    """Run the commands. The last one is repeated until it prints the expected lines."""

    commands: tuple[str, ...]
    expected: str


@dataclass(frozen=True)
class UseBrowser:
    """Do in a browser what the text around this place describes."""

    action: str


def tutorial_steps() -> Iterator[WriteFile | RunCommands | UseBrowser]:
    """Yield the steps in the order of the page. Raise if a block is neither a file, nor commands, nor their output."""
    page = TUTORIAL.read_text("utf-8")
    found = list(STEP.finditer(page))
    position = 0
    while position < len(found):
        match = found[position]
        position += 1
        file = FILE.search(page[: match.start()])
        if match["action"]:
            yield UseBrowser(match["action"])
        elif file:
            yield WriteFile(file["path"], match["text"], added=bool(file["added"]))
        elif match["language"] == "sh":
            expected = ""
            if position < len(found) and page[match.end() : found[position].start()].strip() == "":
                expected = found[position]["text"].strip()
                position += 1
            yield RunCommands(tuple(match["text"].strip().splitlines()), expected)
        else:
            line = page[: match.start()].count("\n") + 1
            raise ValueError(f"{TUTORIAL.name}:{line}: the line before this block names no file, as in `shop/app.py`:")
