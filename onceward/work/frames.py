"""The messages between a worker and the processes of its isolated handlers: JSON with its length before it."""

from __future__ import annotations

import asyncio
import json
from typing import Any, BinaryIO

LENGTH_BYTES = 4


def pack(message: dict[str, Any]) -> bytes:
    """Return the message as bytes."""
    text = json.dumps(message).encode()  # unlike orjson, json keeps all digits of integers
    return len(text).to_bytes(LENGTH_BYTES) + text


def read(stream: BinaryIO) -> dict[str, Any] | None:
    """Wait for the next message. Return None if the other side has ended."""
    length = stream.read(LENGTH_BYTES)
    return json.loads(stream.read(int.from_bytes(length))) if len(length) == LENGTH_BYTES else None


async def receive(reader: asyncio.StreamReader) -> dict[str, Any] | None:
    """Wait for the next message in an event loop. Return None if the other side has ended."""
    try:
        length = await reader.readexactly(LENGTH_BYTES)
        return json.loads(await reader.readexactly(int.from_bytes(length)))
    except (asyncio.IncompleteReadError, OSError):
        return None
