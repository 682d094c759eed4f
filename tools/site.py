"""Hooks of MkDocs: pages of the site that are not files in docs/, and links to files that the site does not have.

The start page is the README and the page on architecture is ARCHITECTURE.md; the reference of the Python API comes from
docstrings. A link to a file of the repository outside docs/ becomes the name of the file.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
COPIED = {"README.md": "index.md", "ARCHITECTURE.md": "architecture.md"}
API = {
    "The app": ["onceward.app.Onceward", "onceward.decorators.JobDecorator"],
    "In a handler": ["onceward.tx.Tx", "onceward.inbox.event.Event", "onceward.schedules.Run"],
    "Outside a handler": ["onceward.engine.Engine", "onceward.work.enqueuing.enqueue_sql"],
    "In other frameworks": ["onceward.fastapi", "onceward.sqlalchemy"],
    "In tests": [
        "onceward.testing.work",
        "onceward.testing.crash",
        "onceward.testing.webhook_inbox",
        "onceward.testing.clock",
    ],
}
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")
FENCE = re.compile(r"(^```.*?^```)", re.MULTILINE | re.DOTALL)


def on_config(config: Any) -> Any:
    """Let `folder/*.md` in the navigation stand for the pages of a folder: a new page needs no line there."""
    config.nav = _with_folders(config.nav)
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are not files in docs/."""
    for source, target in COPIED.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        files.append(File.generated(config, target, content=_with_links_into_docs(text)))
    files.append(File.generated(config, "api.md", content=_api_page()))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Replace links to files that are not part of the site by their names."""
    here = posixpath.dirname(page.file.src_uri)

    def checked(match: re.Match[str]) -> str:
        image, text, target = match.groups()
        path, _, anchor = target.partition("#")
        if not path or "://" in target or target.startswith("mailto:"):
            return match[0]
        resolved = posixpath.normpath(posixpath.join(here, path))
        name = resolved.removeprefix("../")
        if name in COPIED:
            copied = posixpath.relpath(COPIED[name], here or ".")
            return f"[{text}]({copied}{'#' + anchor if anchor else ''})"
        if files.get_file_from_path(resolved) is not None:
            return match[0]
        return text if image or f"`{name}`" == text else f"{text} (`{name}` in the repository)"

    return "".join(part if part.startswith("```") else LINK.sub(checked, part) for part in FENCE.split(markdown))


def _with_folders(entries: list[Any]) -> list[Any]:
    named = {entry for entry in entries if isinstance(entry, str)}
    found: list[Any] = []
    for entry in entries:
        if isinstance(entry, dict):
            found.append(
                {title: _with_folders(part) if isinstance(part, list) else part for title, part in entry.items()}
            )
        elif "*" in entry:
            pages = (path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").glob(entry))
            found += sorted(page for page in pages if page not in named)
        else:
            found.append(entry)
    return found


def _with_links_into_docs(text: str) -> str:
    """Return the text of a page in the root of the repository, as if it were in docs/."""
    text = re.sub(r"\]\(docs/", "](", text)
    return re.sub(r"\]\((?!https?:|mailto:|#)([A-Za-z_]+/|LICENSE|[A-Z]+\.md)", _outside, text)


def _outside(match: re.Match[str]) -> str:
    path = match[1]
    first = path.rstrip("/")
    return match[0] if (ROOT / "docs" / first).exists() else f"](../{path}"


def _api_page() -> str:
    lines = [
        "# Python API",
        "",
        "Generated from the docstrings. Everything here is imported from `onceward`, unless the name says otherwise.",
        "",
    ]
    for title, names in API.items():
        lines += [f"## {title}", ""]
        for name in names:
            lines += [f"::: {name}", ""]
    return "\n".join(lines)
