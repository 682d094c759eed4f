"""The programs of PostgreSQL on this machine: `pg_dump`, `pg_restore` and `psql`, in the version that fits the server.

A dump can be read by the version that wrote it and by newer ones, and a newer `pg_restore` sets parameters that an
older server does not know. So the programs of the server's own version come first.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from onceward.background import spawn
from onceward.db.errors import DatabaseError
from onceward.db.pool import Database
from onceward.settings.database_url import libpq_variables

DEBIAN = Path("/usr/lib/postgresql")
LZ4 = "select 'lz4' = any(enumvals) from pg_settings where name = 'default_toast_compression'"


class ProgramFailed(DatabaseError):
    """A program of PostgreSQL is missing or failed."""


@dataclass(frozen=True, slots=True)
class ServerAbilities:
    """What decides which lines of a script a server accepts."""

    major: int
    has_lz4: bool

    @classmethod
    async def read(cls, db: Database) -> Self:
        major = await db.fetchval("select current_setting('server_version_num')::int / 10000")
        return cls(int(major), bool(await db.fetchval(LZ4)))

    def refuses(self, line: bytes) -> bool:
        """Return whether the server would refuse a line of the script that creates the tables."""
        if self.major < 17 and line.startswith(b"SET transaction_timeout"):
            return True
        return not self.has_lz4 and line.rstrip().endswith(b" SET COMPRESSION lz4;")


@dataclass(frozen=True, slots=True)
class Program:
    path: Path
    major: int

    def sibling(self, name: str) -> Path:
        return self.path.with_name(name)


async def program_for(name: str, server_major: int) -> Program:
    """Return the program of the server's version, or else of the next newer one. Raises `ProgramFailed`."""
    found = await installed(name)
    fitting = sorted((each for each in found if each.major >= server_major), key=lambda each: each.major)
    if fitting:
        return fitting[0]
    has = f" (found: {', '.join(str(each.major) for each in found)})" if found else ""
    raise ProgramFailed(
        f"{name} of PostgreSQL {server_major} or newer is not installed{has}: install PostgreSQL's client programs"
    )


async def restorer_for(file: Path, server_major: int) -> Program:
    """Return the `pg_restore` that can read the file and is nearest to the server's version. Raises `ProgramFailed`."""
    reason = ""
    for each in sorted(await installed("pg_restore"), key=lambda each: (each.major < server_major, each.major)):
        process = await asyncio.create_subprocess_exec(
            str(each.path), "--list", str(file), stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE
        )
        _, errors = await process.communicate()
        if process.returncode == 0:
            return each
        reason = last_lines(errors)
    if reason:
        raise ProgramFailed(f"{file} cannot be read: {reason}")
    raise ProgramFailed("pg_restore is not installed: install PostgreSQL's client programs")


async def installed(name: str) -> list[Program]:
    """Return every version of a program on this machine: of the embedded server, of Debian's packages, on the path."""
    found: dict[int, Program] = {}
    for path in _candidates(name):
        if not path.exists():
            continue
        process = await asyncio.create_subprocess_exec(str(path), "--version", stdout=asyncio.subprocess.PIPE)
        version = re.search(rb"(\d+)(\.|devel|beta|rc)", (await process.communicate())[0])
        if version is not None:
            found.setdefault(int(version[1]), Program(path, int(version[1])))
    return list(found.values())


def _candidates(name: str) -> Iterator[Path]:
    from onceward.db.embedded import BIN, EmbeddedError

    on_path = shutil.which(name)
    if on_path is not None:
        yield Path(on_path)
    yield from sorted(DEBIAN.glob(f"*/bin/{name}"))
    try:
        bundled = BIN.path(name)
    except EmbeddedError:
        return
    yield from sorted(bundled.parent.parent.parent.glob(f"pginstall*/bin/{name}"))


async def run_program(program: Path, *options: str, url: str) -> None:
    """Run a program against a database, and end it if this command is interrupted. Raises `ProgramFailed`."""
    process = await asyncio.create_subprocess_exec(
        str(program), *options, env=_environment(program, url), stderr=asyncio.subprocess.PIPE, start_new_session=True
    )
    try:
        _, errors = await process.communicate()
    finally:
        await _end(process)
    if process.returncode != 0:
        raise ProgramFailed(f"{program.name} failed: {last_lines(errors)}")


async def restore_dump(restorer: Program, *options: str, file: Path, server: ServerAbilities, url: str) -> None:
    """Write the dump as a script, leave out what an older server does not know, and run it.

    The schema `onceward` is dropped first: it may have functions that the dump does not know, as those of watched
    tables. The script runs in one transaction, which is committed after the last line: a command that is killed
    restores nothing.
    """
    reader = await asyncio.create_subprocess_exec(
        str(restorer.path), *options, "--file=-", str(file), stdout=asyncio.subprocess.PIPE, start_new_session=True
    )
    psql = restorer.sibling("psql")
    arguments = ("--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", "--output=/dev/null", "--file=-")
    writer = await asyncio.create_subprocess_exec(
        str(psql),
        *arguments,
        env=_environment(restorer.path, url),
        stdin=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    try:
        assert reader.stdout is not None
        assert writer.stdin is not None
        assert writer.stderr is not None
        errors = spawn(writer.stderr.read())
        is_whole = await _copy_script(reader.stdout, writer.stdin, server) and await reader.wait() == 0
        if is_whole:
            writer.stdin.write(b"\ncommit;\n")
        writer.stdin.close()
        await writer.wait()
        text = last_lines(await errors)
    finally:
        await _end(reader)
        await _end(writer)
    if not is_whole or writer.returncode != 0:
        raise ProgramFailed(f"the restore failed: {text or 'pg_restore ended early'}")


async def _copy_script(script: asyncio.StreamReader, to: asyncio.StreamWriter, server: ServerAbilities) -> bool:
    """Copy the script, and return whether `psql` took all of it."""
    try:
        to.write(b"begin;\nset client_min_messages = warning;\ndrop schema if exists onceward cascade;\n")
        while line := await script.readline():  # until the first data
            if not server.refuses(line):
                to.write(line)
            if line.startswith(b"COPY "):
                break
        while chunk := await script.read(1 << 20):
            to.write(chunk)
            await to.drain()
    except (BrokenPipeError, ConnectionResetError):
        return False  # psql ended; its own message says why
    return True


def last_lines(errors: bytes) -> str:
    return " | ".join(errors.decode(errors="replace").strip().splitlines()[-3:])


def _environment(program: Path, url: str) -> dict[str, str]:
    return {**os.environ, **libpq_variables(url), "PGAPPNAME": program.name.replace("pg_", "onceward-")}


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.terminate()
        await process.wait()
