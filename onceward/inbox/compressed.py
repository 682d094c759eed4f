"""Bodies with a `Content-Encoding`. A sender signs either what it sends or what it compressed: both are tried.

The decompressed body is stored, and may be no larger than a body may be. So a small request cannot become a large one.
"""

from __future__ import annotations

import zlib
from dataclasses import replace

from onceward.webhooks.provider import Provider, Rejected, Request, SourceConfig

GZIP = frozenset({"gzip", "x-gzip"})


def coding_of(request: Request) -> str:
    """Return the coding of the body in lower case, or '' if it is not coded."""
    coding = request.headers.get("content-encoding", "").strip().lower()
    return "" if coding == "identity" else coding


def verified(
    provider: Provider, config: SourceConfig, request: Request, coding: str, most_bytes: int, now: float
) -> Request:
    """Return the authentic request with its decompressed body. Raise Rejected for all other requests."""
    if coding not in GZIP:
        raise Rejected("unsupported_encoding", "the body is compressed: send it with gzip, or without Content-Encoding")
    plain = replace(request, body=decompressed(request.body, most_bytes))
    try:
        provider.verify(config, request, now)
    except Rejected:
        provider.verify(config, plain, now)
    return plain


def decompressed(body: bytes, most_bytes: int) -> bytes:
    """Return the body, of which at most one byte more than allowed is ever decompressed."""
    stream = zlib.decompressobj(wbits=31)
    try:
        plain = stream.decompress(body, most_bytes + 1)
    except zlib.error:
        raise Rejected("unsupported_encoding", "Content-Encoding is gzip, but the body is not") from None
    if len(plain) > most_bytes:
        raise Rejected("too_large_decompressed", f"the decompressed body has more than {most_bytes} bytes")
    if not stream.eof or stream.unused_data:
        raise Rejected("unsupported_encoding", "the gzip body is incomplete, or more follows it")
    return plain
