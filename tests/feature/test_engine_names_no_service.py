"""The engine names no service: everything about one is in its folder below `onceward/integrations`."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from onceward.integration import BUILT_IN, integrations

ENGINE = BUILT_IN.parent
TEXTS = {".py", ".sql", ".html", ".js", ".yml"}
WORDS = {"by_hand", "daily", "generic", "none", "segment", "smtp", "standard", "webpush"}
"""Integrations whose names are ordinary words or protocols."""
SERVICES = re.compile(
    "|".join(
        name.replace("com", r"\.?com\b") for name in sorted(set(integrations()) - set(integrations().senders) - WORDS)
    ),
    re.IGNORECASE,
)
EXAMPLE = "an example for users, which works only with the name of a real provider"
CHANNEL = "a channel is named like the network that it reaches (`slack`, `whatsapp`), whichever service sends"
ALLOWED = {
    "capacity": "`stripe` is a part of a divided counter",
    "cli/shop_template": EXAMPLE,
    "inbox/commands/trigger.py": EXAMPLE,
    "inbox/environment.py": EXAMPLE,
    "inbox/pages": EXAMPLE,
    "inbox/routes": EXAMPLE,
    "messages": CHANNEL,
    "testing/webhook_inbox.py": EXAMPLE,
    "testing/pytest_plugin.py": EXAMPLE,
    "trust/commands/secrets.py": EXAMPLE,
    "trust/pages": EXAMPLE,
    "trust/person.py": "names of fields with personal data",
    "work/commands/dead_letters.py": EXAMPLE,
    "work/routes/dead_letters.py": EXAMPLE,
}
"""Folders and files that may name services, each with the reason."""


@cache
def named() -> dict[str, list[str]]:
    """Return the files of the engine that name a service, with the lines."""
    found: dict[str, list[str]] = {}
    for path in sorted(ENGINE.rglob("*")):
        if path.suffix in TEXTS and BUILT_IN not in path.parents:
            lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines() if SERVICES.search(line)]
            if lines:
                found[str(path.relative_to(ENGINE))] = lines
    return found


def is_below(name: str, allowed: str) -> bool:
    return name == allowed or Path(allowed) in Path(name).parents


def test_no_file_of_the_engine_names_a_service() -> None:
    assert {name: lines for name, lines in named().items() if not any(is_below(name, each) for each in ALLOWED)} == {}


def test_every_exception_is_still_needed() -> None:
    assert [each for each in ALLOWED if not any(is_below(name, each) for name in named())] == []
