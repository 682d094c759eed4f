"""Write onceward/messages/zones_of_numbers.txt: the time zone of phone numbers by their first digits.

The table is that of Google's libphonenumber (Apache-2.0), as the package `phonenumbers` contains it. Onceward depends on
`phonenumberslite`, which is 20 MB smaller and lacks it. Run it now and then:

    uv run --no-project --with phonenumbers python tools/zones_of_numbers.py
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

TARGET = Path(__file__).parent.parent / "onceward" / "messages" / "zones_of_numbers.txt"


def table(zones_of: dict[str, tuple[str, ...]]) -> str:
    """Return a line per zone with its prefixes; `-` for those with several zones. A longer prefix wins."""
    one = {prefix: zones[0] if len(zones) == 1 else "-" for prefix, zones in zones_of.items()}
    prefixes: dict[str, list[str]] = {}
    for prefix, zone in sorted(one.items()):
        shorter = next((one[prefix[:n]] for n in range(len(prefix) - 1, 0, -1) if prefix[:n] in one), "-")
        if zone != shorter:
            prefixes.setdefault(zone, []).append(prefix)
    return "".join(f"{zone} {' '.join(found)}\n" for zone, found in sorted(prefixes.items()))


if __name__ == "__main__":
    TARGET.write_text(table(import_module("phonenumbers.tzdata").TIMEZONE_DATA), encoding="utf-8")
