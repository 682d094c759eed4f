"""Personal data in the tables of the web frame: none that can be searched."""

from __future__ import annotations

from onceward.trust import Eraser

ERASERS: tuple[Eraser, ...] = ()

UNSEARCHED: dict[str, str] = {
    "onceward.idempotency_keys.*": "hashes and encrypted responses; deleted after 24 hours",
}
