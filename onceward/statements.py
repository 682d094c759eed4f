"""Read SQL statements from the files beside each package: `onceward/<package>/sql/<name>.sql`, one statement each.

The first line of each file is a comment that states what the statement promises. Modules read their statements when
they are imported, so a missing file is found at the start of a process. A statement with many parameters names them
(`$queue` instead of `$3`), and `named` gives them their numbers.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent
PARAMETER = re.compile(r"\$([a-z]\w*)")


def read_statement(package: str, name: str) -> str:
    """Return the text of `onceward/<package>/sql/<name>.sql`."""
    return (ROOT / package / "sql" / f"{name}.sql").read_text(encoding="utf-8")


@dataclass(frozen=True, slots=True)
class NamedStatement:
    """A statement with named parameters: `conn.execute(SAVE.text, *SAVE.values(ref=ref, email=email))`."""

    text: str
    """The statement as PostgreSQL reads it, with `$1`, `$2` and so on."""
    names: tuple[str, ...]
    """The names of the parameters in the order of their numbers."""

    def values(self, **given: Any) -> list[Any]:
        """Return the values in the order of the parameters. Raises TypeError if one is missing or unknown."""
        if given.keys() != set(self.names):
            missing, unknown = sorted(set(self.names) - given.keys()), sorted(given.keys() - set(self.names))
            raise TypeError(f"the statement lacks values for {missing} and has no parameters {unknown}")
        return [given[name] for name in self.names]


def named(text: str) -> NamedStatement:
    """Give the parameters of a statement their numbers, in the order in which they first appear."""
    names = tuple(dict.fromkeys(PARAMETER.findall(text)))
    numbers = {name: number for number, name in enumerate(names, 1)}
    return NamedStatement(PARAMETER.sub(lambda match: f"${numbers[match[1]]}", text), names)
