"""The door: its link scans one event only, undo, re-entry, door times, by name, counters, and scans without a
network."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from onceward_apps.ticketing import doors, event_changes, scans, ticket_signatures
from onceward_apps.ticketing.codes import code_digest, door_token, qr_payload
from onceward_apps.ticketing.errors import Exists, Invalid, NotFound, NotUndone
from onceward_apps.ticketing.store import doors as rows
from onceward_apps.ticketing.store import keys
from tests.ticketing.office import Office, Show

pytestmark = pytest.mark.acceptance("door")
FIRST = datetime(2000, 1, 1, tzinfo=UTC)


@dataclass
class Entrance:
    """An event with three tickets sold and a door."""

    office: Office
    show: Show
    tickets: list[Any]
    door: UUID

    async def scan(self, ticket: Any, direction: Any = "in", **more: Any) -> scans.Scan:
        request = scans.Request(
            scan_id=more.pop("scan_id", None) or uuid4(), presented=ticket["ticket_code"], direction=direction, **more
        )
        async with self.office.engine.transaction(organization=self.show.organization) as tx:
            return await scans.scan(tx, self.show.id, request, by="door:North", door_id=self.door)

    async def undo(self, scan_id: UUID, door: UUID | None = None) -> scans.Scan:
        async with self.office.engine.transaction(organization=self.show.organization) as tx:
            return await scans.undo(tx, self.show.id, scan_id, by="door:North", door_id=door or self.door)

    async def edit(self, **changes: Any) -> None:
        async with self.office.engine.transaction(organization=self.show.organization) as tx:
            await event_changes.edit(tx, self.show.id, actor="test", **changes)

    async def counts(self) -> tuple[int, int]:
        async with self.office.engine.transaction(organization=self.show.organization) as tx:
            row = await rows.counts(tx, self.show.id)
        return row["entered"], row["inside"]


@pytest.fixture
async def entrance(office: Office) -> AsyncIterator[Entrance]:
    await office.source()
    show = await office.show()
    checkout = await office.checkout(show, "Stalls A1", "Stalls A2", "Stalls A3")
    await office.pay(checkout)
    async with office.engine.transaction(organization=show.organization) as tx:
        door = await doors.add(tx, show.id, "North", actor="test")
    yield Entrance(office, show, await office.tickets(checkout), door["id"])
    await office.assert_sound()


async def test_a_link_opens_its_own_door_until_the_door_ends(entrance: Entrance) -> None:
    office, show = entrance.office, entrance.show
    other = await office.show(slug="other")
    async with office.engine.transaction(organization=show.organization) as tx:
        url = await doors.url(tx, entrance.door)
        token = url.partition("#")[2]
        assert url.startswith(f"https://tickets.example/doors/{entrance.door}#")
        assert (await doors.opened(tx, entrance.door, token))["event_id"] == show.id
        second = await doors.add(tx, show.id, "South", actor="test")
        for door, wrong in ((second["id"], token), (entrance.door, ""), (entrance.door, token[:-1] + "-")):
            with pytest.raises(NotFound):
                await doors.opened(tx, door, wrong)
        with pytest.raises(Exists, match="North"):
            await doors.add(tx, show.id, "North", actor="test")
    async with office.engine.transaction(organization=other.organization) as tx:
        with pytest.raises(NotFound):
            await doors.opened(tx, entrance.door, token)
        with pytest.raises(NotFound):
            await doors.add(tx, show.id, "Theirs", actor="test")
    async with office.engine.transaction(organization=show.organization) as tx:
        await doors.end(tx, entrance.door, actor="test")
        await doors.end(tx, entrance.door, actor="test")
        with pytest.raises(NotFound):
            await doors.opened(tx, entrance.door, token)
        late = dict(await rows.door(tx, second["id"]))
        assert rows.is_open({**late, "now": late["ends_at"] + timedelta(days=1)})
        assert not rows.is_open({**late, "now": late["ends_at"] + timedelta(days=3)})
        assert door_token(keys.key_of(office.engine, late), second["id"]) != token


async def test_a_scan_is_undone_once_and_only_the_last_one_by_the_door_that_took_it(entrance: Entrance) -> None:
    ticket, id = entrance.tickets[0], uuid4()
    assert (await entrance.scan(ticket, scan_id=id)).outcome == "admitted"
    assert await entrance.counts() == (1, 1)
    with pytest.raises(NotFound):
        await entrance.undo(id, door=uuid4())
    for _ in range(2):
        await entrance.undo(id)
    assert await entrance.counts() == (0, 0)
    again = uuid4()
    assert (await entrance.scan(ticket, scan_id=again)).outcome == "admitted"
    used = uuid4()
    assert (await entrance.scan(ticket, scan_id=used)).outcome == "already_used"
    with pytest.raises(NotUndone, match="nothing to undo"):
        await entrance.undo(used)
    published = await entrance.office.db.fetch(
        "select type from onceward.published where type like 'ticket.%' order by id"
    )
    assert [row["type"] for row in published] == ["ticket.scanned", "ticket.scan_undone", "ticket.scanned"]


async def test_guests_who_were_scanned_out_come_back_where_the_event_allows_it(entrance: Entrance) -> None:
    ticket = entrance.tickets[0]
    assert (await entrance.scan(ticket, "out")).outcome == "not_inside"
    await entrance.scan(ticket)
    assert (await entrance.scan(ticket, "out")).outcome == "left"
    assert await entrance.counts() == (1, 0)
    assert (await entrance.scan(ticket)).outcome == "already_used"
    await entrance.edit(has_reentry=True)
    back = uuid4()
    assert (await entrance.scan(ticket, scan_id=back)).outcome == "readmitted"
    assert await entrance.counts() == (1, 1)
    assert (await entrance.scan(ticket)).outcome == "already_used"
    await entrance.undo(back)
    assert await entrance.counts() == (1, 0)
    assert (await entrance.scan(ticket)).outcome == "readmitted"


async def test_nobody_enters_before_the_doors_open_or_after_they_close(entrance: Entrance) -> None:
    now = datetime.now(UTC)
    await entrance.edit(doors_open_at=now + timedelta(hours=1), doors_close_at=now + timedelta(hours=5))
    ticket = entrance.tickets[0]
    assert (await entrance.scan(ticket)).outcome == "too_early"
    await entrance.edit(doors_open_at=now - timedelta(hours=5), doors_close_at=now - timedelta(hours=1))
    assert (await entrance.scan(ticket)).outcome == "too_late"
    # A scan without a network is judged by the time at which it was taken.
    taken = {"was_offline": True, "let_in": True, "taken_at": now - timedelta(hours=2)}
    assert (await entrance.scan(ticket, **taken)).outcome == "admitted"
    with pytest.raises(Invalid, match="doors_close_at"):
        await entrance.edit(doors_open_at=now, doors_close_at=now - timedelta(hours=1))


async def test_a_moved_or_repeated_event_keeps_its_door_times_relative_to_its_start(entrance: Entrance) -> None:
    office, show = entrance.office, entrance.show
    async with office.engine.transaction(organization=show.organization) as tx:
        event = await tx.fetchrow("select starts_at, ends_at from ticketing.events where id = $1", show.id)
        early, week = timedelta(minutes=45), timedelta(days=7)
        await event_changes.edit(tx, show.id, doors_open_at=event["starts_at"] - early, actor="test")
        [copy] = await event_changes.duplicate(tx, show.id, [event["starts_at"] + week], actor="test")
        moved = await event_changes.move(
            tx,
            show.id,
            starts_at=event["starts_at"] + 2 * week,
            ends_at=event["ends_at"] + 2 * week,
            reason="Rain",
            refund_until=None,
            actor="test",
        )
    for each in (copy, moved):
        assert each["starts_at"] - each["doors_open_at"] == early


async def test_a_guest_is_admitted_by_name_and_a_ticket_of_another_event_is_not(entrance: Entrance) -> None:
    office, show = entrance.office, entrance.show
    by_name = scans.Request(scan_id=uuid4(), ticket_id=entrance.tickets[0]["id"])
    async with office.engine.transaction(organization=show.organization) as tx:
        assert (await scans.scan(tx, show.id, by_name, by="door:North")).outcome == "admitted"
    other = await office.show(slug="other")
    async with office.engine.transaction(organization=other.organization) as tx:
        with pytest.raises(NotFound):
            await scans.scan(tx, other.id, scans.Request(scan_id=uuid4(), ticket_id=by_name.ticket_id), by="door")


async def test_two_doors_without_a_network_admit_one_ticket_and_the_second_is_reported(entrance: Entrance) -> None:
    ticket, at = entrance.tickets[0], datetime.now(UTC) - timedelta(minutes=10)
    offline = {"was_offline": True, "let_in": True}
    first = await entrance.scan(ticket, taken_at=at, gate="North", **offline)
    assert (first.outcome, first.used_at, first.was_let_in) == ("admitted", at, False)
    id = uuid4()
    for _ in range(2):  # the device sends it again: it was not sure that the first request arrived
        second = await entrance.scan(ticket, scan_id=id, taken_at=at + timedelta(minutes=1), gate="South", **offline)
        assert (second.outcome, second.was_let_in, second.used_gate) == ("already_used", True, "North")
    refused = await entrance.scan(ticket, was_offline=True)
    assert (refused.outcome, refused.was_let_in) == ("already_used", False)
    assert await entrance.counts() == (1, 1)
    [notice] = [row for row in await entrance.office.notices() if row["type"] == "LET_IN_WRONGLY"]
    assert notice["details"]["outcome"] == "already_used"


async def test_the_list_of_a_door_has_no_codes_and_brings_only_what_changed(
    entrance: Entrance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doors, "PAGE", 2)
    monkeypatch.setattr(doors, "OVERLAP", timedelta(0))
    office, show = entrance.office, entrance.show

    async def fetched(since: datetime) -> tuple[dict[UUID, Any], datetime]:
        found: dict[UUID, Any] = {}
        after, is_last = UUID(int=0), False
        async with office.engine.transaction(organization=show.organization) as tx:
            door = await rows.door(tx, entrance.door)
            while not is_last:
                page = await doors.tickets(tx, door, since, after)
                found |= {each["id"]: each for each in page["tickets"]}
                since, after, is_last = page["since"], page["after"], page["is_last"]
        return found, since

    listed, since = await fetched(FIRST)
    assert set(listed) == {ticket["id"] for ticket in entrance.tickets}
    for ticket in entrance.tickets:
        shown = listed[ticket["id"]]
        assert shown["digest"] == code_digest(show.id, ticket["ticket_code"])
        assert ticket["ticket_code"] not in str(shown)
        assert "buyer@example.org" not in str(shown)
    await entrance.scan(entrance.tickets[1])
    changed, _ = await fetched(since)
    assert [(id, each["status"]) for id, each in changed.items()] == [(entrance.tickets[1]["id"], "scanned")]


async def test_the_keys_of_a_door_check_tickets_and_cannot_make_them(entrance: Entrance) -> None:
    office, show, code = entrance.office, entrance.show, entrance.tickets[0]["ticket_code"]
    async with office.engine.transaction(organization=show.organization) as tx:
        key = await keys.signing_key(tx)
        told = await doors.described(tx, office.engine, await rows.door(tx, entrance.door))
    assert told["keys"] == [each.hex() for each in ticket_signatures.public_keys(key)]
    assert key.hex() not in str(told)
    payload = qr_payload(key, show.id, code)
    assert payload == qr_payload(key, show.id, code)
    plain, signature = payload.split(".")[1:]
    assert ticket_signatures.is_signed(key, show.id, plain, signature)
    for event, ticket, given in (
        (uuid4(), plain, signature),
        (show.id, plain[::-1], signature),
        (show.id, plain, signature[:-1] + ("0" if signature[-1] != "0" else "1")),
        (show.id, plain, "Z" * 103),
        (show.id, plain, signature[:-1]),
        (show.id, plain, signature[:-1] + "U"),
    ):
        assert not ticket_signatures.is_signed(key, event, ticket, given)
