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


ANY_ORGANIZATION = re.compile(r"\((\$\w+)::uuid is null or ((?:\w+\.)?organization_id) = \1\)")


@dataclass(frozen=True, slots=True)
class Scoped:
    """A statement for all organizations, and the same for one, which can then use an index that begins with it.

    Row-level security alone reads the rows of all: PostgreSQL has no index for `is not distinct from`. A condition that
    is true for all organizations does not help either, because the plan must be right for both.
    """

    all: str
    own: str

    def of(self, organization: object) -> str:
        """Return the text for this organization, or for all if it is None. Both have the same parameters."""
        return self.all if organization is None else self.own


def scoped(text: str) -> Scoped:
    """Return both forms of a statement that contains `($n::uuid is null or t.organization_id = $n)`."""
    if ANY_ORGANIZATION.search(text) is None:
        raise ValueError(f"the statement names no organization: {text[:200]}")
    return Scoped(ANY_ORGANIZATION.sub(r"(\1::uuid is null)", text), ANY_ORGANIZATION.sub(r"\2 = \1::uuid", text))


def named(text: str) -> NamedStatement:
    """Give the parameters of a statement their numbers, in the order in which they first appear."""
    names = tuple(dict.fromkeys(PARAMETER.findall(text)))
    numbers = {name: number for number, name in enumerate(names, 1)}
    return NamedStatement(PARAMETER.sub(lambda match: f"${numbers[match[1]]}", text), names)
