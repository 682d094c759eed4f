"""Mail into a folder, if no service for mail is configured."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager, nullcontext
from email.utils import formataddr, parseaddr
from hashlib import sha256
from pathlib import Path
from typing import Literal

from onceward.messages.channel import Letter
from onceward.messages.mail_composer import compose, stamped
from onceward.private_files import private_folder, write_private
from onceward.services.outcome import Absent, Accepted, Lookup, ServiceAnswer, Unreachable


class FolderChannel:
    """Writes mails to files, for development: one file per key, so a repeated send changes nothing."""

    name: Literal["email"] = "email"
    repeatable_for_s = float("inf")
    readable = True

    def __init__(self, folder: Path, *, sender: str) -> None:
        self._folder = folder
        self._from = sender
        self.sender = parseaddr(sender)[1]

    def _path(self, letter: Letter) -> Path:
        return self._folder / f"{sha256(letter.key.encode()).hexdigest()[:32]}.eml"

    def turn(self) -> AbstractAsyncContextManager[None]:
        return nullcontext()

    async def send(self, letter: Letter) -> ServiceAnswer:
        message = compose(letter, formataddr(parseaddr(self._from)))
        _, content = stamped(message, key=letter.key, sender=self.sender)
        path = self._path(letter)

        def write() -> None:
            private_folder(self._folder)
            write_private(path, content)

        try:
            await asyncio.to_thread(write)
        except OSError as error:
            return Unreachable(f"the mail folder {self._folder} is not writable ({error.__class__.__name__})")
        return Accepted(path.name)

    async def look_up(self, letter: Letter) -> Lookup:
        path = self._path(letter)
        return Accepted(path.name) if await asyncio.to_thread(path.exists) else Absent()

    async def aclose(self) -> None: ...
