"""Read server-sent events (`text/event-stream`) from the chunks of an answer."""

from collections.abc import AsyncGenerator, AsyncIterable

from onceward.errors import OncewardError

MAX_EVENT_BYTES = 1024 * 1024


class EventTooLong(OncewardError):
    """One event is longer than `MAX_EVENT_BYTES`."""


async def read_events(chunks: AsyncIterable[bytes]) -> AsyncGenerator[bytes]:
    """Yield the data of each complete event. An event that the end of the answer cuts off is not yielded."""
    buffer = bytearray()
    data: list[bytes] = []
    size = 0
    async for chunk in chunks:
        buffer += chunk
        while (end := buffer.find(b"\n")) >= 0:
            line = bytes(buffer[:end]).removesuffix(b"\r")
            del buffer[: end + 1]
            if not line:
                if data:
                    yield b"\n".join(data)
                data, size = [], 0
            elif line.startswith(b"data:"):
                data.append(line[5:].removeprefix(b" "))
                size += len(line)
        if size + len(buffer) > MAX_EVENT_BYTES:
            raise EventTooLong(f"an event has more than {MAX_EVENT_BYTES} bytes")
