"""The audit chain against an administrator of the database, who can write every row but has no key."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest

from onceward.db import Database
from onceward.services.files import Files
from onceward.settings import Settings
from onceward.trust import Sealer
from onceward.trust.anchors import FILE, Anchors, anchor_files, read_anchor
from onceward.trust.chain import ENTRIES, START, Head, entry_hash, heads_in, link_hash, prove
from onceward.trust.chain_keys import COLUMN, add_key
from onceward.trust.errors import ChainRewritten
from onceward.trust.sealer import head
from onceward.trust.secrets import SecretBox, rotate
from onceward.trust.settings import TrustSettings
from tests.buckets import simulated_bucket
from tests.trust.conftest import BOX
from tests.trust.test_audit import proof, seal_all, tamper, write

REWRITE = """
update onceward.audit_log set changes = '{"price": 9}', content_hash = sha256(content_salt || convert_to(
    jsonb_build_object('reason', reason, 'changes', '{"price": 9}'::jsonb, 'metadata', metadata)::text, 'UTF8')) where id = $1
"""


def plain_hash(previous: bytes, number: int, ids: list[int], hashes: bytes) -> bytes:
    """A link without a key, which everybody can compute."""
    numbers = b"".join(each.to_bytes(8, "big") for each in (number, len(ids), *ids))
    return hashlib.sha256(previous + numbers + hashes).digest()


async def forge(db: Database, changed: int, key: tuple[UUID, bytes] | None) -> None:
    """Change an entry and compute every hash again, as somebody who has read our source can."""
    await tamper(db, REWRITE, changed)
    previous = START
    for seal in await db.fetch("select * from onceward.audit_seals order by number"):
        rows = {row["id"]: row for row in await db.fetch(ENTRIES, seal["ids"])}
        parts = [(rows[each]["frame"], rows[each]["who_hash"], rows[each]["content_hash"]) for each in seal["ids"]]
        hashes = b"".join(entry_hash(*each) for each in parts)
        number: int = seal["number"]
        key_id: UUID = seal["key_id"] if key is None else key[0]
        link = (
            plain_hash(previous, number, seal["ids"], hashes)
            if key is None
            else link_hash(key[1], previous, key_id, number, seal["ids"], hashes)
        )
        update = "update onceward.audit_seals set hashes = $2, previous = $3, hash = $4, key_id = $5 where number = $1"
        await tamper(db, update, number, hashes, previous, link, key_id)
        previous = link


async def sealed_twice(db: Database) -> list[int]:
    await write(db, 2)
    await seal_all(db)
    ids = await write(db, 2)
    await seal_all(db)
    return ids


async def test_who_computes_all_hashes_again_without_the_key_is_found(db: Database) -> None:
    ids = await sealed_twice(db)
    assert (await proof(db)).ok
    await forge(db, ids[1], None)
    assert (await proof(db)).problems == tuple(
        f"seal {number} was changed, or made without the key of the audit chain" for number in (1, 2)
    )


async def test_who_adds_a_key_of_their_own_is_found(db: Database) -> None:
    ids = await sealed_twice(db)
    async with db.acquire() as conn:
        own = await add_key(conn, SecretBox(["x" * 32]))
    await forge(db, ids[1], own)
    found = (await proof(db)).problems
    assert [each.split(":")[0] for each in found] == [f"seal {number} cannot be checked" for number in (1, 2)]


async def test_a_key_that_was_deleted_or_replaced_is_found(db: Database) -> None:
    await sealed_twice(db)
    await db.execute("update onceward.audit_keys set key = $1", bytes(80))
    assert "cannot be checked" in (await proof(db)).problems[0]
    await db.execute("alter table onceward.audit_seals drop constraint audit_seals_key_id_fkey")
    await db.execute("delete from onceward.audit_keys")
    assert "was deleted" in (await proof(db)).problems[0]


async def test_links_stay_provable_after_rotations_without_the_old_secret_key(db: Database) -> None:
    await sealed_twice(db)
    new = SecretBox(["n" * 32, "k" * 32])
    assert await rotate(db, new, [COLUMN]) == 1
    alone = SecretBox(["n" * 32])
    async with db.acquire() as conn:
        await add_key(conn, alone)
    await write(db, 1)
    await Sealer(db, alone).step()
    async with db.acquire() as conn:
        report = await prove(conn, alone)
        assert (report.problems, report.head.number) == ((), 3)
        assert await conn.fetchval("select count(distinct key_id) from onceward.audit_seals") == 2
        assert "which this process does not have" in (await prove(conn, BOX)).problems[0]


async def cut_and_queue(db: Database, number: int) -> None:
    """Delete a link and let the process seal its entries again, with its own key."""
    ids: list[int] = await db.fetchval("select ids from onceward.audit_seals where number = $1", number)
    await tamper(db, REWRITE, ids[0])
    await tamper(db, "delete from onceward.audit_seals where number = $1", number)
    await db.execute("insert into onceward.audit_pending (id) select unnest($1::bigint[])", ids)


async def test_a_running_sealer_does_not_seal_a_chain_that_lacks_its_last_link(db: Database) -> None:
    sealer = Sealer(db, BOX)
    await write(db, 2)
    await sealer.step()
    await cut_and_queue(db, 1)
    with pytest.raises(ChainRewritten, match="no longer has the link 1:"):
        await sealer.step()
    assert await db.fetchval("select count(*) from onceward.audit_seals") == 0


@pytest.fixture(params=["folder", "bucket"])
def anchor_url(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    if request.param == "folder":
        yield tmp_path.as_uri()
    else:
        with simulated_bucket(monkeypatch, "anchors") as address:
            yield f"{address}/audit"


async def test_an_anchor_finds_a_cut_end_and_entries_that_were_changed_and_sealed_again(
    db: Database, tmp_path: Path, anchor_url: str
) -> None:
    files = anchor_files(Settings(data_dir=tmp_path).using(TrustSettings(audit_anchor_url=anchor_url)))
    assert files is not None
    await sealed_twice(db)
    anchors = Anchors(db, files, every_s=3600)
    anchored = await anchors.step()
    async with db.acquire() as conn:
        assert anchored == await head(conn) == await read_anchor(files)
    assert await anchors.step() is None, "nothing new"
    await cut_and_queue(db, 2)
    assert anchored is not None
    assert "its end was cut off" in (await proof(db, anchored)).problems[-1]
    await seal_all(db)  # a process that has just started, so it remembers no link
    assert (await proof(db)).ok, "without the anchor the chain looks whole"
    assert (await proof(db, anchored)).problems == ("seal 2 differs from the known head: the chain was rewritten",)
    for each in (anchors, Anchors(db, files, every_s=3600)):
        assert await each.step() is None
        assert await read_anchor(files) == anchored, "the evidence stays"
    assert await Anchors(db, None, every_s=3600).step() is not None, "the log alone needs a reader"


async def test_heads_are_read_from_a_log(db: Database, tmp_path: Path) -> None:
    one, two = Head(1, bytes(32)), Head(12, b"\xff" * 32)
    text = f'{{"event": "audit.anchored", "head": "{one}", "timestamp": "2026-11-17T23:00:00Z"}}\naudit.sealed head={two}\n'
    assert heads_in(text) == [one, two]
    files = Files.at(tmp_path.as_uri(), tmp_path)
    await files.put(FILE, b"nonsense", content_type="text/plain")
    with pytest.raises(ValueError, match="must be NUMBER:HASH"):
        await Anchors(db, files, every_s=3600).step()
