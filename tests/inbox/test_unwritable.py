"""A database that answers but cannot write: senders are asked to retry, and the log has one line per outage."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from tests.inbox.test_receive import EFFECTS, shop

REFUSE = """
create function refuse() returns trigger language plpgsql as $$
begin
    raise exception 'no' using errcode = '{}';
end
$$;
create trigger refuse before insert on {} for each row execute function refuse()
"""


@pytest.mark.parametrize("mode", ["inline", "ack"])
@pytest.mark.parametrize("sqlstate", ["25006", "53100"], ids=["read-only", "full"])
async def test_an_event_that_cannot_be_written_is_answered_503_and_logged_once(
    office, mode: str, sqlstate: str
) -> None:
    here = await office(shop())
    await here.db.execute(EFFECTS)
    await here.source(mode=mode)
    await here.db.execute(REFUSE.format(sqlstate, "onceward.webhook_events"))
    with capture_logs() as logs:
        replies = [await here.post(fields={"id": f"evt_{n}"}) for n in range(5)]
    assert {(reply.status, reply.headers["retry-after"]) for reply in replies} == {(503, "5")}
    lines = [(each["event"], each.get("sqlstate")) for each in logs if each["log_level"] != "debug"]
    assert lines == [("database.unwritable", sqlstate)]
    await here.db.execute("drop function refuse cascade")
    with capture_logs() as logs:
        assert (await here.post(fields={"id": "evt_1"})).status == 200
    assert "database.writable" in [each["event"] for each in logs]


@pytest.mark.parametrize("sqlstate", ["25006", "53100"], ids=["read-only", "full"])
async def test_500_means_that_the_event_is_stored(office, sqlstate: str) -> None:
    """The handler's own write is refused; the event itself can be stored."""
    here = await office(shop())
    await here.db.execute(EFFECTS)
    await here.source(mode="inline")
    await here.db.execute(REFUSE.format(sqlstate, "effects"))
    reply = await here.post()
    stored = await here.db.fetchval("select count(*) from onceward.webhook_events")
    assert (reply.status, stored) == (500, 1)
    assert reply.json["id"]
