"""Look at the statements of a handler that shares a transaction with others.

Such a handler must not end the transaction: that would commit or undo what others wrote. The statement is refused
before it is sent. A statement whose effect lasts until the end of the transaction (`set local`, a temporary table, a
cursor, a lock of a whole table) is allowed, but no other handler may follow in the same transaction.

PostgreSQL refuses to end a transaction from inside a function, procedure or DO block, so the text of the statements
decides. A setting that a function of the app changes cannot be seen here.
"""

from __future__ import annotations

import re
from enum import IntEnum

from onceward.db.errors import DatabaseError


class Lasts(IntEnum):
    """How long the effect of a statement lasts, besides what it writes to tables."""

    NOT = 0
    SAVEPOINT = 1
    """It sets a savepoint, releases it or goes back to it."""
    TO_THE_END = 2
    """Until the end of the transaction, or longer."""
    ENDS = 3
    """It ends the transaction."""


class NotInSharedTransaction(DatabaseError):
    """The statement would end a transaction that several handlers share. It was not sent."""


_TOKENS = re.compile(
    r"""\be'(?:[^'\\]|\\.|'')*' | '(?:[^']|'')*' | "(?:[^"]|"")*" | \$(\w*)\$.*?\$\1\$ | --[^\n]* | /\*.*?\*/""",
    re.IGNORECASE | re.DOTALL | re.VERBOSE,
)
_FIRST_WORD = re.compile(r"[\s(]*([a-z]+)", re.IGNORECASE)
_LASTING_CALL = re.compile(r"set_config|advisory|\binto\s+(?:local\s+|global\s+)?temp", re.IGNORECASE)
_TO_SAVEPOINT = re.compile(r"rollback\s+(?:work\s+|transaction\s+)?to\s+(?:savepoint\s+)?(\S+)", re.IGNORECASE)
_SAVEPOINT = re.compile(r"(?:^|;)\s*savepoint\s+(\S+)", re.IGNORECASE)
_RELEASE = re.compile(r"(?:^|;)\s*release\s+(?:savepoint\s+)?(\S+)", re.IGNORECASE)
_PREPARED_TRANSACTION = re.compile(r"prepare\s+transaction\b", re.IGNORECASE)

_DATA = frozenset(["select", "insert", "update", "delete", "merge", "with", "values", "table"])
_SAVEPOINTS = frozenset(["savepoint", "release"])
_ENDS = frozenset(["commit", "end", "abort", "rollback"])
_RESTORED = frozenset(
    ["reset role", "set local role onceward_app", "select set_config('onceward.organization', $1, true)"]
)
"""Statements of the engine. Role and organization are checked or set before the next handler begins."""

_MOST_KNOWN = 5000
_known: dict[str, Lasts] = {}


def lasts(query: str) -> Lasts:
    """Return how long the effect of a statement, or of a script of statements, lasts."""
    known = _known.get(query)
    if known is None:
        if len(_known) >= _MOST_KNOWN:  # statements with values in their text
            _known.clear()
        known = _known[query] = _judge(query)
    return known


def _judge(query: str) -> Lasts:
    if query in _RESTORED:
        return Lasts.NOT
    if any(token.startswith("/*") and "/*" in token[2:] for token in (m[0] for m in _TOKENS.finditer(query))):
        return Lasts.ENDS  # a comment in a comment: nobody needs it, and reading it wrong would be dangerous
    # A literal becomes a word: only its place matters. What follows a `;` inside dollar quotes is not a statement of
    # its own.
    text = _TOKENS.sub(lambda token: " " if token[0][:2] in ("--", "/*") else " literal ", query)
    return max((_judge_one(part) for part in text.split(";") if part.strip()), default=Lasts.NOT)


def _judge_one(statement: str) -> Lasts:
    first = _FIRST_WORD.match(statement)
    word = "" if first is None else first[1].lower()
    if word in _DATA:
        return Lasts.TO_THE_END if _LASTING_CALL.search(statement) else Lasts.NOT
    if word in _SAVEPOINTS or _TO_SAVEPOINT.match(statement.strip()):
        return Lasts.SAVEPOINT
    if word in _ENDS or _PREPARED_TRANSACTION.match(statement.strip()):
        return Lasts.ENDS
    return Lasts.TO_THE_END


class Watch:
    """What one handler has sent. `others` says whether what others wrote is in the same transaction."""

    __slots__ = ("_savepoints", "others", "refused", "seen")

    def __init__(self, *, others: bool) -> None:
        self.others = others
        self.seen = Lasts.NOT
        """The longest effect of all statements so far."""
        self.refused: NotInSharedTransaction | None = None
        self._savepoints: set[str] = set()

    def look(self, query: str) -> None:
        """Look at a statement before it is sent. Raise `NotInSharedTransaction` if it would end what others wrote."""
        effect = lasts(query)
        if effect is Lasts.NOT:
            return
        if self.others and (effect is Lasts.ENDS or self._goes_behind(query)):
            self.refused = NotInSharedTransaction(
                "the statement would end a transaction that several handlers share, or undo what others wrote;"
                " the handler runs again alone"
            )
            raise self.refused
        self.seen = max(self.seen, effect)

    def _goes_behind(self, query: str) -> bool:
        """Return whether the statement goes back to a savepoint that this handler has not set."""
        self._savepoints.update(_names(_SAVEPOINT, query))
        if not self._savepoints.issuperset(_names(_TO_SAVEPOINT, query)):
            return True
        self._savepoints -= _names(_RELEASE, query)
        return False


def _names(pattern: re.Pattern[str], query: str) -> set[str]:
    return {name.rstrip(";").strip('"').lower() for name in pattern.findall(query)}
