"""Mails and ticket images in the data directory are for the account of the process only."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from onceward.messages.channel import Letter
from onceward.messages.channels import FolderChannel
from onceward.messages.rendering import Rendered
from onceward.messages.templates import Template
from onceward.services import Files


@pytest.fixture(autouse=True)
def open_umask() -> Iterator[None]:
    """The most generous one: modes must not depend on it."""
    before = os.umask(0)
    yield
    os.umask(before)


def modes(root: Path) -> dict[str, str]:
    return {str(path.relative_to(root)) or ".": oct(path.stat().st_mode & 0o777) for path in [root, *root.rglob("*")]}


async def test_files_of_apps_are_private(tmp_path: Path) -> None:
    files = Files.at(None, tmp_path)
    await files.put("ticketing/a/b.png", b"one", content_type="image/png")
    await files.put("ticketing/a/b.png", b"two", content_type="image/png")
    assert await files.get("ticketing/a/b.png") == b"two"
    assert modes(tmp_path / "files") == {
        ".": "0o700",
        "ticketing": "0o700",
        "ticketing/a": "0o700",
        "ticketing/a/b.png": "0o600",
    }
    await files.delete("ticketing/a/b.png")
    assert await files.get("ticketing/a/b.png") is None
    with pytest.raises(ValueError, match="is outside the folder"):
        await files.get("../secret")


async def test_a_folder_that_was_open_is_closed(tmp_path: Path) -> None:
    (tmp_path / "files").mkdir(mode=0o755)
    await Files.at(f"file://{tmp_path}/files", tmp_path).put("x", b"", content_type="text/plain")
    assert modes(tmp_path / "files") == {".": "0o700", "x": "0o600"}


async def test_mails_in_the_data_directory_are_private(tmp_path: Path) -> None:
    channel = FolderChannel(tmp_path / "mail", sender="Shop <shop@example.org>")
    rendered = Rendered(subject="Hello", text="Hello Ada", html="<p>Hello Ada</p>", locale="en")
    template = Template("hello", {"en": {"subject": "Hello", "text": "Hello Ada"}})
    letter = Letter(id=1, key="k", to="ada@example.org", rendered=rendered, template=template, data={})
    await channel.send(letter)
    assert set(modes(tmp_path / "mail").values()) == {"0o700", "0o600"}
