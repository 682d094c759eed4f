"""Where the keys of stored secrets come from: the settings, a file that an agent of a key service keeps, or a command
that asks it.

A key service (KMS) needs no code here: its agent writes a file, or its command-line client prints the keys. Every
source returns the keys newest first. The first key encrypts, all decrypt.
"""

from __future__ import annotations

import functools
import shlex
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from onceward.trust.errors import BadSecretKey
from onceward.trust.settings import TrustSettings

COMMAND_LIMIT_S = 30.0


class KeySource(Protocol):
    """A place that has the keys. `keys` raises `BadSecretKey` if it cannot return them."""

    def keys(self) -> Sequence[str]: ...


@dataclass(frozen=True, slots=True)
class SettingsKeys:
    """The keys in ONCEWARD_SECRET_KEY."""

    text: str

    def keys(self) -> Sequence[str]:
        return _split(self.text)


@dataclass(frozen=True, slots=True)
class FileKeys:
    """The keys in a file, such as one that an agent of a key service mounts. It is read whenever the keys are
    needed."""

    path: Path

    def keys(self) -> Sequence[str]:
        try:
            found = _split(self.path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise BadSecretKey(f"ONCEWARD_SECRET_KEY_FILE={self.path} cannot be read: {type(error).__name__}") from None
        return _required(found, f"ONCEWARD_SECRET_KEY_FILE={self.path} contains no key")


@dataclass(frozen=True, slots=True)
class CommandKeys:
    """The keys that a command prints. It runs once in a process, without a shell."""

    command: str

    def keys(self) -> Sequence[str]:
        return _printed_keys(self.command)


def configured_source(settings: TrustSettings) -> KeySource | None:
    """Return the source that the settings name, or None: then a key is created in the data directory."""
    if settings.secret_key is not None:
        return SettingsKeys(settings.secret_key.get_secret_value())
    if settings.secret_key_file is not None:
        return FileKeys(Path(settings.secret_key_file))
    if settings.secret_key_command is not None:
        return CommandKeys(settings.secret_key_command)
    return None


@functools.cache
def _printed_keys(command: str) -> tuple[str, ...]:
    """Run the command. What it prints to stderr is not shown, because it may contain a part of a key."""
    setting = "ONCEWARD_SECRET_KEY_COMMAND"
    try:
        words = shlex.split(command)
        done = subprocess.run(
            words, capture_output=True, timeout=COMMAND_LIMIT_S, check=False, stdin=subprocess.DEVNULL
        )
        text = done.stdout.decode()
    except subprocess.TimeoutExpired:
        raise BadSecretKey(f"{setting} printed no keys within {COMMAND_LIMIT_S:g} s") from None
    except (OSError, ValueError, IndexError) as error:
        raise BadSecretKey(f"{setting} cannot be run: {type(error).__name__}") from None
    if done.returncode != 0:
        raise BadSecretKey(f"{setting} ended with status {done.returncode}: run it by hand to see why")
    return _required(_split(text), f"{setting} printed no key")


def _required(keys: tuple[str, ...], message: str) -> tuple[str, ...]:
    if not keys:
        raise BadSecretKey(f"{message}: it must have the keys, newest first, one in a line or separated by commas")
    return keys


def _split(text: str) -> tuple[str, ...]:
    return tuple(key for each in text.replace("\n", ",").split(",") if (key := each.strip()))
