"""What a long command offers in the terminal: a line that shows how far it is, and an orderly end after Ctrl-C."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

import typer

AT_MOST_EVERY_S = 0.1


@contextmanager
def progress() -> Generator[Callable[[str], None]]:
    """Return a function that replaces the line. The line is on stderr, and is removed at the end. It needs a
    terminal."""
    if not sys.stderr.isatty():
        yield lambda _text: None
        return
    shown_at = 0.0

    def tell(text: str) -> None:
        nonlocal shown_at
        now = time.monotonic()
        if now - shown_at >= AT_MOST_EVERY_S:
            shown_at = now
            typer.echo(f"\r\033[K{text[:100]}", nl=False, err=True)

    try:
        yield tell
    finally:
        typer.echo("\r\033[K", nl=False, err=True)


@contextmanager
def interruptible() -> Generator[Callable[[], bool]]:
    """Return a function that says whether Ctrl-C was pressed, so that a command can end after the current batch.

    A second Ctrl-C ends the command at once, as usual. Call it inside an event loop.
    """
    import asyncio

    loop = asyncio.get_running_loop()
    pressed = False

    def press() -> None:
        nonlocal pressed
        pressed = True
        loop.remove_signal_handler(signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    loop.add_signal_handler(signal.SIGINT, press)
    try:
        yield lambda: pressed
    finally:
        loop.remove_signal_handler(signal.SIGINT)
        signal.signal(signal.SIGINT, before)
