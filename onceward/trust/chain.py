"""The hash chain over the audit log, and the proof that no entry was changed, deleted or moved.

A link is an HMAC of the previous link, its number, its ids and the hashes of those entries. The key is in the database,
but encrypted with ONCEWARD_SECRET_KEY, so who changes rows and computes all hashes again still cannot make a link. An
entry's hash covers its frame (id, time, organization, action, cause) and the hashes of its two erasable parts, so an
erasure does not break the chain. The proof uses only table contents and functions of `pg_catalog`, so replacing our SQL
functions cannot deceive it.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from onceward.db import Connection
from onceward.statements import read_statement
from onceward.trust.chain_keys import all_keys
from onceward.trust.errors import SecretError
from onceward.trust.invariants import Mark, Tell, forget_mark, read_mark, save_mark
from onceward.trust.secrets import SecretBox

START = bytes(32)
HASH_BYTES = 32

FRAME = """
    id, who_salt, who_hash, content_salt, content_hash, erased_at,
    pg_catalog.jsonb_build_object('id', id, 'organization_id', organization_id, 'at',
        (pg_catalog.date_part('epoch', pg_catalog.date_trunc('second', at))::bigint * 1000000
            + pg_catalog.date_part('microseconds', at)::bigint % 1000000),
        'action', action, 'entity_type', entity_type, 'caused_by', caused_by)::text as frame
"""

ENTRIES = f"""
select {FRAME},
    pg_catalog.jsonb_build_object('actor', actor, 'user_id', user_id, 'entity_id', entity_id)::text as who,
    pg_catalog.jsonb_build_object('reason', reason, 'changes', changes, 'metadata', metadata)::text as content,
    actor = 'erased' and user_id is null and entity_id is null as who_gone,
    reason is null and changes is null and metadata is null as content_gone
from onceward.audit_log where id = any($1)
"""

UNSEALED = read_statement("trust", "check_unsealed")
ERASURES = read_statement("trust", "list_erased_entries")


@dataclass(frozen=True, slots=True)
class Head:
    """The end of the chain, written as in the logs: `7:9f86d0...`."""

    number: int
    hash: bytes

    def __str__(self) -> str:
        return f"{self.number}:{self.hash.hex()}"

    @classmethod
    def parse(cls, text: str) -> Head:
        if not (match := re.fullmatch(r"(\d{1,18}):([0-9a-f]{64})", text.strip())):
            raise ValueError(f"head {text!r} must be NUMBER:HASH, as in the log event audit.sealed")
        return cls(int(match[1]), bytes.fromhex(match[2]))


def heads_in(text: str) -> list[Head]:
    """Return the heads in a log or another text, wherever they are."""
    return [
        Head(int(number), bytes.fromhex(hash)) for number, hash in re.findall(r"\b(\d{1,18}):([0-9a-f]{64})\b", text)
    ]


@dataclass(frozen=True, slots=True)
class ChainReport:
    """The result of the proof. Without `problems`, every entry that was checked is unchanged.

    `entries` were checked now; `earlier` ones by earlier proofs. The next proof continues from `mark`.
    """

    head: Head
    entries: int
    earlier: int
    pending: int
    problems: tuple[str, ...]
    mark: Mark

    @property
    def ok(self) -> bool:
        return not self.problems


def entry_hash(frame: str, who_hash: bytes, content_hash: bytes) -> bytes:
    return hashlib.sha256(frame.encode() + b"\x00" + who_hash + content_hash).digest()


def link_hash(key: bytes, previous: bytes, key_id: UUID, number: int, ids: Sequence[int], hashes: bytes) -> bytes:
    digest = hmac.new(key, previous + key_id.bytes, "sha256")
    digest.update(number.to_bytes(8, "big") + len(ids).to_bytes(8, "big"))
    digest.update(b"".join(one.to_bytes(8, "big") for one in ids))
    digest.update(hashes)
    return digest.digest()


CHECK = "trust.audit_chain"
"""The name of the check whose mark all proofs of the chain share."""


async def prove(
    conn: Connection,
    box: SecretBox,
    *,
    known: Sequence[Head] = (),
    full: bool = True,
    most_problems: int = 100,
    tell: Tell | None = None,
) -> ChainReport:
    """Check the chain in one snapshot. `known` are heads from the logs, which must still be part of the chain.

    Without `full`, only the seals after the last proof are checked, and that they follow from it. A proof without
    problems moves the mark; after one with problems the next checks everything.
    """
    since = {} if full else await read_mark(conn, CHECK)
    async with conn.transaction(isolation="repeatable_read", readonly=True):
        report = await prove_within(conn, box, known=known, since=since, most_problems=most_problems, tell=tell)
    if not report.ok:
        await forget_mark(conn, CHECK)
    elif report.mark != since:
        await save_mark(conn, CHECK, report.mark)
    return report


async def prove_within(
    conn: Connection,
    box: SecretBox,
    *,
    known: Sequence[Head] = (),
    since: Mark | None = None,
    most_problems: int = 100,
    tell: Tell | None = None,
) -> ChainReport:
    """Check the chain in the caller's transaction, from the mark `since` on."""
    return await _Proof(conn, box, known, since or {}, most_problems, tell).run()


class _Proof:
    def __init__(
        self,
        conn: Connection,
        box: SecretBox,
        known: Sequence[Head],
        since: Mark,
        most_problems: int,
        tell: Tell | None,
    ) -> None:
        self.conn = conn
        self.box = box
        self.keys: dict[UUID, bytes | SecretError] = {}
        self.known: dict[int, set[bytes]] = {}
        for head in known:
            self.known.setdefault(head.number, set()).add(head.hash)
        self.first = Head.parse(since["head"]) if since else Head(0, START)
        self.highest: int = since.get("highest", 0)
        self.earlier: int = since.get("entries", 0)
        self.most = most_problems
        self.tell = tell
        self.problems: list[str] = []
        self.erased: set[int] = set()
        self.entries = 0

    async def run(self) -> ChainReport:
        last, first_highest = self.first, self.highest
        self.keys = await all_keys(self.conn, self.box)
        await self._earlier_seals()
        seals: int = await self.conn.fetchval("select coalesce(max(number), 0) from onceward.audit_seals")
        links = self.conn.cursor(
            "select * from onceward.audit_seals where number > $1 order by number", last.number, prefetch=20
        )
        async for link in links:
            last = await self._link(link, last)
            if self.tell is not None:
                self.tell(f"seal {last.number} of {seals}")
            if len(self.problems) >= self.most:
                self.problems.append(f"... stopped after {self.most} problems")
                break
        else:
            await self._whole(last, first_highest)
        pending = await self.conn.fetchval("select count(*) from onceward.audit_pending")
        mark = {"head": str(last), "highest": self.highest, "entries": self.earlier + self.entries}
        return ChainReport(last, self.entries, self.earlier, pending, tuple(self.problems), mark)

    async def _earlier_seals(self) -> None:
        """Check that the seal of the last proof, and known heads before it, are still in the chain."""
        numbers = {self.first.number, *self.known} if self.first.number else set[int]()
        rows = await self.conn.fetch(
            "select number, hash from onceward.audit_seals where number = any($1) and number <= $2",
            list(numbers),
            self.first.number,
        )
        stored = {row["number"]: row["hash"] for row in rows}
        for number in sorted(number for number in numbers if number <= self.first.number):
            expected = set(self.known.get(number, ()))
            if number == self.first.number:
                expected.add(self.first.hash)
            if number not in stored:
                self.problems.append(f"seal {number} is missing, although it was proven earlier")
            elif expected - {stored[number]}:
                self.problems.append(f"seal {number} differs from the known head: the chain was rewritten")

    async def _link(self, link: Any, last: Head) -> Head:
        number: int = link["number"]
        ids: list[int] = link["ids"]
        hashes: bytes = link["hashes"]
        if number != last.number + 1:
            self.problems.append(f"seal {last.number + 1} is missing before seal {number}")
        elif link["previous"] != last.hash:
            self.problems.append(f"seal {number} does not follow from seal {last.number}")
        match self.keys.get(link["key_id"]):
            case None:
                self.problems.append(f"seal {number} cannot be checked: its key {link['key_id']} was deleted")
            case SecretError() as error:
                self.problems.append(f"seal {number} cannot be checked: {error}")
            case key if link_hash(key, link["previous"], link["key_id"], number, ids, hashes) != link["hash"]:
                self.problems.append(f"seal {number} was changed, or made without the key of the audit chain")
            case _:
                pass
        if self.known.get(number, set[bytes]()) - {link["hash"]}:
            self.problems.append(f"seal {number} differs from the known head: the chain was rewritten")
        rows = {row["id"]: row for row in await self.conn.fetch(ENTRIES, ids)}
        for position, one in enumerate(ids):
            sealed = hashes[position * HASH_BYTES : (position + 1) * HASH_BYTES]
            self._entry(one, rows.get(one), sealed, number)
        self.entries += len(ids)
        self.highest = max(self.highest, max(ids, default=0))
        return Head(number, link["hash"])

    def _entry(self, one: int, row: Any, sealed: bytes, number: int) -> None:
        if row is None:
            self.problems.append(f"entry {one} of seal {number} was deleted")
            return
        if entry_hash(row["frame"], row["who_hash"], row["content_hash"]) != sealed:
            self.problems.append(f"entry {one} of seal {number} was changed")
        for part in ("who", "content"):
            salt: bytes | None = row[f"{part}_salt"]
            if salt is None:
                self.erased.add(one)
                if not row[f"{part}_gone"]:
                    self.problems.append(f"entry {one} of seal {number}: its erased {part} was filled in again")
            elif hashlib.sha256(salt + row[part].encode()).digest() != row[f"{part}_hash"]:
                self.problems.append(f"entry {one} of seal {number}: its {part} was changed")

    async def _whole(self, last: Head, first_highest: int) -> None:
        """Check what no single link can show."""
        beyond = max(self.known, default=0)
        if beyond > last.number:
            known = Head(beyond, min(self.known[beyond]))
            self.problems.append(
                f"the chain ends at seal {last.number}, but the head {known} is known: its end was cut off"
            )
        for row in await self.conn.fetch(UNSEALED, first_highest, self.first.number):
            self.problems.append(f"entry {row['id']} is neither sealed nor pending: its seal was removed")
        recorded = {row["id"] for row in await self.conn.fetch(ERASURES)} if self.erased else set[int]()
        for one in sorted(self.erased - recorded):
            self.problems.append(f"entry {one} was erased, but no audit entry records the erasure")
