"""Let the next handler continue the open transaction of the one before it, without a round trip of its own.

The statement that sets cause and organization travels with the first statement of the handler: both are written at
once, and PostgreSQL answers them together. If the first one is refused, PostgreSQL skips the other. A handler that
sends nothing costs nothing.
"""

from __future__ import annotations

import struct
from uuid import UUID

from onceward.db.errors import RoleChanged, RolledBack, TransactionEnded

JOIN = (
    "select 1 where case"
    " when current_setting('onceward.cause', true) is distinct from {0} or current_user <> 'onceward_app'"
    " then onceward.refuse_join({0})"
    " else set_config('onceward.cause', {1}, true) is null or set_config('onceward.organization', {2}, "
    "true) is null end"
)
"""Returns no row, because what it answers is read as the answer of the handler's own statement."""
PREPARE = "prepare {} (text, text, text) as " + JOIN.format("$1", "$2", "$3")

SWALLOWED = (
    "nothing was committed: a statement of this transaction failed and the handler caught the error."
    " Do not catch the error, or run the statement in a savepoint"
)
ENDED = (
    "A handler must not commit, roll back or change the role: what it wrote may be lost or committed without its"
    " outcome. Use `tx.savepoint` to undo a part, and raise an exception to undo everything"
)
REFUSALS = {"OW007": TransactionEnded, "OW008": RoleChanged}
"""The SQLSTATEs of onceward.check_transaction and onceward.refuse_join."""
IN_FAILED_TRANSACTION = "25P02"


class Join:
    """The statement with which a handler continues the transaction of another one: `before` is what the session has
    as cause."""

    __slots__ = ("_refusal", "_values", "took_effect")

    def __init__(self, before: str, cause: str, organization: UUID | None) -> None:
        self._values = (before, cause, "" if organization is None else str(organization))
        self._refusal: Exception | None = None
        self.took_effect = False
        """Whether the session has the cause and the organization of the handler."""

    @property
    def script(self) -> str:
        """Return the statement as SQL text. The values are names and numbers of our own."""
        return JOIN.format(*(f"'{value}'" for value in self._values))

    def message(self, statement: str) -> bytes:
        """Return the protocol's messages that execute the prepared `statement`: Bind and Execute, without Sync."""
        parts = [b"\0", statement.encode(), b"\0\0\0\0\3"]
        for value in self._values:
            text = value.encode()
            parts += (struct.pack("!i", len(text)), text)
        parts.append(b"\0\0")
        bind = b"".join(parts)
        return b"B" + struct.pack("!i", len(bind) + 4) + bind + b"E\0\0\0\x09\0\0\0\0\0"

    def refusal_of(self, error: BaseException) -> Exception | None:
        """Return what this error says about the handler before, or None if it says nothing about it. Later
        statements raise it too."""
        sqlstate = getattr(error, "sqlstate", None)
        if sqlstate == IN_FAILED_TRANSACTION:
            self._refusal = RolledBack(SWALLOWED)
        elif sqlstate in REFUSALS:
            self._refusal = REFUSALS[sqlstate](f"{error}. {ENDED}")
        return self._refusal

    def raise_refusal(self) -> None:
        """Raise what was refused before: a handler that caught the error must not go on, perhaps outside of the
        transaction."""
        if self._refusal is not None:
            raise self._refusal
