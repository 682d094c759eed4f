"""Public keys that a sender publishes under an address: fetched when they are needed, kept for an hour, and never
fetched too often."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Final

from onceward.webhooks.provider import Fetch, Rejected

KEPT_S: Final = 3600.0
APART_S: Final = 60.0
"""Unknown key ids, which anybody can send, cause at most one fetch in this time."""
MOST: Final = 32
"""The number of addresses whose keys are kept: sources may have different ones."""

Parse = Callable[[bytes], Mapping[str, bytes]]


class FetchedKeys:
    """The keys of some addresses by key id. The bytes are public keys in PEM, or the raw bytes of an Ed25519 key."""

    def __init__(self, parse: Parse, clock: Callable[[], float] = time.monotonic) -> None:
        self._parse = parse
        self._clock = clock
        self._kept: dict[str, tuple[float, Mapping[str, bytes]]] = {}

    async def need(self, url: str, key_id: str, fetch: Fetch) -> None:
        """Fetch the keys of an address, unless the key is known or they were fetched a moment ago."""
        fetched_at, keys = self._kept.get(url, (float("-inf"), {}))
        age_s = self._clock() - fetched_at
        if age_s < APART_S or (age_s < KEPT_S and (not key_id or key_id in keys)):
            return
        try:
            keys = self._parse(await fetch(url))
        except Exception as error:
            if key_id in keys:
                return  # the key was right an hour ago: an outage of the sender's host must not stop its events
            if isinstance(error, Rejected):
                raise
            raise Rejected(
                "certificate_unavailable", f"the sender's keys could not be fetched: {type(error).__name__}"
            ) from error
        self._kept.pop(url, None)
        self._kept[url] = (self._clock(), keys)
        while len(self._kept) > MOST:
            del self._kept[next(iter(self._kept))]

    def get(self, url: str, key_id: str) -> tuple[bytes, ...]:
        """Return the key with this id, or all keys if a request names none."""
        _, keys = self._kept.get(url, (0.0, {}))
        if not key_id:
            return tuple(keys.values())
        if key_id not in keys:
            raise Rejected("bad_token", "the sender has not published the key that the request names")
        return (keys[key_id],)
