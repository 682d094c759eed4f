"""Another version of the code, in a process of its own: it gets ids on its input and answers with a rehearsal each."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from onceward.rehearsal.effects import Rehearsal
from onceward.rehearsal.errors import RehearsalError
from onceward.rehearsal.wire import load

LONGEST_LINE = 64 << 20
ANSWER_S = 120.0


def interpreter_of(where: Path) -> tuple[Path, Path]:
    """Return the Python of another version and the folder of its code. `where` is one of the two."""
    if where.is_dir():
        python = next((path for path in (where / ".venv/bin/python", where / "bin/python") if path.exists()), None)
        if python is None:
            raise RehearsalError(f"--against {where}: the folder has no .venv/bin/python; name the interpreter itself")
        return python.absolute(), where.absolute()
    if not os.access(where, os.X_OK):
        raise RehearsalError(f"--against {where} is neither a folder with a .venv nor an interpreter")
    inside = where.absolute().parents
    folder = inside[2] if len(inside) > 2 and inside[1].name in (".venv", "venv") else Path.cwd()
    return where.absolute(), folder


class OtherVersion:
    """Rehearses work with another version of the code. The settings are those of this process."""

    def __init__(
        self,
        where: Path,
        app: str,
        options: Sequence[str] = (),
        *,
        folder: Path | None = None,
        environment: Mapping[str, str] | None = None,
        answer_s: float = ANSWER_S,
    ) -> None:
        """`environment` has settings in addition to those of this process."""
        self._answer_s = answer_s
        self._python, own_folder = interpreter_of(where)
        self._folder = folder or own_folder
        self._environment = {**os.environ, **(environment or {})}
        self._arguments = ("rehearse", "--pipe", "--app", app, *options)
        self._process: asyncio.subprocess.Process | None = None

    async def __aenter__(self) -> Self:
        self._process = await asyncio.create_subprocess_exec(
            self._python,
            "-m",
            "onceward",
            *self._arguments,
            cwd=self._folder,
            env=self._environment,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=LONGEST_LINE,
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        process = self._process
        if process is None or process.stdin is None:
            return
        process.stdin.close()
        try:
            async with asyncio.timeout(10):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()

    async def rehearse(self, id: int) -> Rehearsal:
        """Return what the other version would cause."""
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        line = b""
        try:
            process.stdin.write(f"{id}\n".encode())
            await process.stdin.drain()
            async with asyncio.timeout(self._answer_s):
                line = await process.stdout.readline()
        except (BrokenPipeError, ConnectionResetError):
            pass
        except TimeoutError:
            raise RehearsalError(f"the other version has not answered within {self._answer_s:g} s") from None
        if not line:
            raise RehearsalError(
                f"the other version ended: `{self._python} -m onceward rehearse {id}` in {self._folder.name} shows why."
                " It must have `onceward rehearse` too, and fit the schema of this database"
            )
        return load(line.decode())
