"""Encryption of stored secrets: AES-256-GCM, bound to the table, row and column of the value.

A sealed value that was changed or copied to another row cannot be opened. The first key seals; all keys open. To rotate
keys, put a new key first, restart, run `rotate`, then remove the old key.

A sealed value consists of version (1 byte), key id (4), nonce (12), ciphertext and tag.
"""

from __future__ import annotations

import hmac
import os
import secrets as random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

from onceward.db import Connection, Database, Transaction
from onceward.feature import SealedColumn
from onceward.settings import Settings
from onceward.statements import read_statement
from onceward.trust.errors import BadSecretKey, NotFound, SecretError, Tampered, UnknownSecretKey
from onceward.trust.journal import noted
from onceward.trust.key_sources import configured_source
from onceward.trust.settings import TrustSettings

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

VERSION = b"\x01"
KEY_ID_BYTES = 4
NONCE_BYTES = 12
HEADER_BYTES = 1 + KEY_ID_BYTES + NONCE_BYTES
SHORTEST_KEY = 32
KEY_FILE = "secret.key"

MATCHING_COLUMNS = read_statement("trust", "count_sealed_columns")


def _derive(key: str, purpose: bytes, length: int) -> bytes:
    """Return a key for one purpose: HKDF-SHA256 (RFC 5869) without salt, of at most one block."""
    extracted = hmac.digest(bytes(32), key.encode(), "sha256")
    return hmac.digest(extracted, b"onceward secrets v1 " + purpose + b"\x01", "sha256")[:length]


class SecretBox:
    """Encrypts (seals) and decrypts (opens) values with a list of keys, newest first."""

    def __init__(self, keys: Sequence[str]) -> None:
        if not keys:
            raise BadSecretKey("ONCEWARD_SECRET_KEY is empty: create a key with `openssl rand -base64 32`")
        self._keys: dict[bytes, bytes] = {}
        self._ciphers: dict[bytes, AESGCM] = {}
        for number, key in enumerate(keys, start=1):
            if len(key) < SHORTEST_KEY:
                raise BadSecretKey(
                    f"key {number} of ONCEWARD_SECRET_KEY has {len(key)} characters, but needs {SHORTEST_KEY}: "
                    "create a key with `openssl rand -base64 32`"
                )
            self._keys[_derive(key, b"id", KEY_ID_BYTES)] = _derive(key, b"key", 32)
        self.current = next(iter(self._keys))

    @classmethod
    def from_directory(cls, directory: Path) -> SecretBox:
        """Use the key in the data directory. If there is none, create a key file that only its owner can read."""
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / KEY_FILE
        if not path.exists():
            _create_key_file(path)
        return cls(path.read_text(encoding="ascii").split())

    def derived(self, purpose: bytes) -> tuple[bytes, ...]:
        """Return a key for another purpose from each key, newest first: values of one purpose say nothing about
        another."""
        return tuple(hmac.digest(key, b"derived " + purpose, "sha256") for key in self._keys.values())

    def knows(self, key_id: bytes) -> bool:
        return key_id in self._keys

    def _cipher(self, key_id: bytes) -> AESGCM | None:
        """Return the cipher of a key. `cryptography` takes a tenth of a process's memory, so it is loaded when
        needed."""
        if key_id not in self._ciphers and key_id in self._keys:
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM

            self._ciphers[key_id] = AESGCM(self._keys[key_id])
        return self._ciphers.get(key_id)

    def seal(self, plain: bytes, *, table: str, row: object, column: str) -> bytes:
        """Encrypt a value for exactly this table, row and column."""
        header = VERSION + self.current
        nonce = random.token_bytes(NONCE_BYTES)
        place = _place(header, table, row, column)
        cipher = self._cipher(self.current)
        assert cipher is not None
        return header + nonce + cipher.encrypt(nonce, plain, place)

    def open(self, sealed: bytes, *, table: str, row: object, column: str) -> bytes:
        """Decrypt a value. Raises `Tampered` if it was changed, or sealed for another table, row or column."""
        header, nonce = sealed[: 1 + KEY_ID_BYTES], sealed[1 + KEY_ID_BYTES : HEADER_BYTES]
        if len(sealed) < HEADER_BYTES + 16 or not header.startswith(VERSION):
            raise Tampered(f"{table}.{column} of row {row} is not a sealed value")
        cipher = self._cipher(bytes(header[1:]))
        if cipher is None:
            raise UnknownSecretKey(
                f"{table}.{column} of row {row} is encrypted with key {header[1:].hex()}, which this process does not "
                "have: set the same ONCEWARD_SECRET_KEY on every node, with the old key after the new one (`new,old`)"
            )
        from cryptography.exceptions import InvalidTag

        try:
            return cipher.decrypt(nonce, sealed[HEADER_BYTES:], _place(header, table, row, column))
        except InvalidTag:
            raise Tampered(f"{table}.{column} of row {row} was changed, or copied from another place") from None


def key_id(sealed: bytes) -> bytes:
    """Return the id of the key that a value is sealed with."""
    return bytes(sealed[1 : 1 + KEY_ID_BYTES])


def _place(header: bytes, table: str, row: object, column: str) -> bytes:
    """Return the place of a value as bytes. Lengths come before the names, so no two places have the same bytes."""
    parts = [part.encode() for part in (table, str(row), column)]
    return header + b"".join(len(part).to_bytes(4, "big") + part for part in parts)


def _create_key_file(path: Path) -> None:
    """Write a temporary file, then link it: of two processes that start at the same time, one creates the key."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{random.token_hex(4)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(random.token_urlsafe(32) + "\n")
    try:
        os.link(temporary, path)
    except FileExistsError:
        return
    finally:
        temporary.unlink()


def secret_box(settings: Settings) -> SecretBox:
    """Return a box with the keys that the settings name, or else with the key in the data directory."""
    source = configured_source(settings.of(TrustSettings))
    return SecretBox.from_directory(settings.data_dir) if source is None else SecretBox(source.keys())


async def missing(conn: Connection, columns: Iterable[SealedColumn]) -> list[SealedColumn]:
    """Return the sealed columns that do not exist in this database, or do not have the type bytea."""
    absent: list[SealedColumn] = []
    for place in columns:
        matching = await conn.fetchval(
            MATCHING_COLUMNS,
            place.table,
            [place.row, place.column],
            place.column,
        )
        if matching != 2:
            absent.append(place)
    return absent


def _explain_missing(place: SealedColumn) -> str:
    return (
        f"the sealed column {place} (row {place.row}) does not exist or is not of type bytea: "
        "run `onceward migrate`, or correct the SealedColumn"
    )


async def rotate(db: Database, box: SecretBox, columns: Iterable[SealedColumn], *, batch: int = 100) -> int:
    """Encrypt every value again that does not use the current key. Returns how many. Safe to interrupt and repeat.

    Raises `SecretError` before any change if a column does not exist.
    """
    columns = tuple(columns)
    changed = 0
    async with db.acquire() as conn:
        if absent := await missing(conn, columns):
            raise SecretError("; ".join(_explain_missing(place) for place in absent))
        note = noted(
            db,
            "secrets rotate",
            step="some secrets may still be encrypted with an old key",
            remedy="run it again before you remove a key from ONCEWARD_SECRET_KEY",
        )
        async with note:
            for place in columns:
                # A second pass, because a row may be added behind the first one.
                while moved := await _rotate_column(conn, box, place, batch):
                    changed += moved
    return changed


async def _rotate_column(conn: Connection, box: SecretBox, place: SealedColumn, batch: int) -> int:
    """Go once through a column in the order of its row ids, which have an index."""
    changed = 0
    after: list[Any] = []
    while True:
        async with conn.transaction():
            rows = await conn.fetch(
                f"select {place.row} as id, {place.row}::text as row, {place.column} as sealed from {place.table}"
                f" where substr({place.column}, 2, {KEY_ID_BYTES}) <> $1 {f'and {place.row} > $3' if after else ''}"
                f" order by {place.row} limit $2 for update",
                box.current,
                batch,
                *after,
            )
            for row in rows:
                at = {"table": place.table, "row": row["row"], "column": place.column}
                resealed = box.seal(box.open(row["sealed"], **at), **at)
                # The old value is compared, so that no other row is overwritten if ids are not unique.
                await conn.execute(
                    f"update {place.table} set {place.column} = $1 where {place.row} = $2 and {place.column} = $3",
                    resealed,
                    row["id"],
                    row["sealed"],
                )
        if not rows:
            return changed
        changed += len(rows)
        after = [rows[-1]["id"]]


async def put_secret(tx: Transaction, box: SecretBox, name: str, value: str) -> None:
    """Store a named secret of the transaction's organization. Replaces a secret of the same name."""
    row = await tx.fetchval(
        "insert into onceward.secrets (organization_id, name, value) values (onceward.organization(), $1, '')"
        " on conflict (organization_id, name) do update set name = excluded.name returning secret_id",
        name,
    )
    sealed = box.seal(value.encode(), table="onceward.secrets", row=row, column="value")
    await tx.execute(
        "update onceward.secrets set value = $1, changed_at = onceward.now() where secret_id = $2", sealed, row
    )


async def get_secret(tx: Transaction, box: SecretBox, name: str) -> str:
    """Return a named secret of the transaction's organization. Raises `NotFound`."""
    row = await tx.fetchrow(
        "select secret_id, value from onceward.secrets"
        " where name = $1 and organization_id is not distinct from onceward.organization()",
        name,
    )
    if row is None:
        raise NotFound(f"secret {name!r} does not exist in this organization")
    return box.open(row["value"], table="onceward.secrets", row=row["secret_id"], column="value").decode()


async def delete_secret(tx: Transaction, name: str) -> bool:
    """Delete a named secret of the transaction's organization. Returns False if it does not exist."""
    deleted = await tx.fetchval(
        "delete from onceward.secrets"
        " where name = $1 and organization_id is not distinct from onceward.organization() returning secret_id",
        name,
    )
    return deleted is not None


class OrganizationSecrets:
    """Reads the secrets of organizations, for `Services`."""

    def __init__(self, db: Database, box: SecretBox) -> None:
        self._db = db
        self._box = box

    async def read(self, organization: UUID, names: Sequence[str]) -> dict[str, str]:
        """Return those of the named secrets that the organization has."""
        rows = await self._db.fetch(
            "select secret_id, name, value from onceward.secrets where organization_id = $1 and name = any($2)",
            organization,
            list(names),
        )
        return {
            row["name"]: self._box.open(
                row["value"], table="onceward.secrets", row=row["secret_id"], column="value"
            ).decode()
            for row in rows
        }


async def unreadable(conn: Connection, box: SecretBox, columns: Iterable[SealedColumn]) -> list[str]:
    """Return one line for each value that these keys cannot open, and for each column that does not exist."""
    columns = tuple(columns)
    absent = await missing(conn, columns)
    problems = [_explain_missing(place) for place in absent]
    for place in columns:
        if place in absent:
            continue
        rows = await conn.fetch(
            f"select {place.row}::text as row, {place.column} as sealed from {place.table}"
            f" where {place.column} is not null"
        )
        for row in rows:
            try:
                box.open(row["sealed"], table=place.table, row=row["row"], column=place.column)
            except SecretError as error:
                problems.append(str(error))
    return problems
