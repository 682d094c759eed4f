"""Encrypt and decrypt the values of columns that an app declares with `Onceward(..., sealed=[...])`."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from typing import TypeAlias
from uuid import UUID

from onceward.feature import SealedColumn
from onceward.trust.errors import BadSecretKey
from onceward.trust.secrets import SecretBox

RowId: TypeAlias = UUID | int | str
"""The id of a row. Python and PostgreSQL write values of these types as the same text."""


class SealedColumns:
    """The encrypted columns of an app, and the keys of this process.

    Only declared columns are accepted: `onceward secrets rotate` would leave other columns under the old key, and
    removing that key would lose their values.
    """

    def __init__(
        self, columns: AbstractSet[SealedColumn] = frozenset(), box: SecretBox | Callable[[], SecretBox] | None = None
    ) -> None:
        self._columns = columns
        self._box = box

    def seal(self, column: SealedColumn, plain: bytes, *, row: RowId) -> bytes:
        """Encrypt a value for exactly this row of the column."""
        box = self._box_for(column, row)
        return box.seal(plain, table=column.table, row=row, column=column.column)

    def unseal(self, column: SealedColumn, sealed: bytes, *, row: RowId) -> bytes:
        """Decrypt a value. Raises `UnknownSecretKey`, or `Tampered` if it was changed or copied from another place."""
        box = self._box_for(column, row)
        return box.open(bytes(sealed), table=column.table, row=row, column=column.column)

    def _box_for(self, column: SealedColumn, row: object) -> SecretBox:
        if column not in self._columns:
            raise ValueError(
                f"{column} is not declared: add it to the app, `Onceward(..., sealed=[SealedColumn(...)])`"
            )
        if row is None:  # a transaction without an organization, for example
            raise ValueError(f"the row of {column} is None: name the row that holds the value")
        if self._box is None:
            raise BadSecretKey(
                f"this engine has no key for {column}: open it with `app.engine()`, which reads ONCEWARD_SECRET_KEY, "
                "or create it with `Engine(..., box=SecretBox([key]))`"
            )
        if not isinstance(self._box, SecretBox):
            self._box = self._box()
        return self._box
