"""The demo: patients pay, cancel, meet and ask; a webhook that failed is repaired and replayed from the dashboard."""

from __future__ import annotations

import re
from typing import Any

import aiohttp

from onceward.testing import until
from onceward.trust import verify
from onceward.trust.keys import create_key
from onceward_apps.clinic.checks import CHECKS
from onceward_apps.clinic.demo import FATES, ClinicDemo

ENDS = {
    "pays and meets": "completed paid",
    "is declined, then pays": "completed paid",
    "pays twice": "completed paid",
    "recording fails": "completed paid",
    "pays and cancels": "cancelled refunded",
    "asks": "scheduled pending",
    "result fails": "scheduled paid",
}


async def test_patients_of_every_fate_come_and_go(demo: ClinicDemo) -> None:
    await demo.set_up()  # as at a second start
    db = demo.engine.db
    visits = {fate: await demo.visit(fate) for fate, _ in FATES}

    async def settled() -> Any:
        rows = await db.fetch("select id, status || ' ' || payment_status as state from clinic.appointments")
        states = {row["id"]: row["state"] for row in rows}
        return {fate: states[id] for fate, id in visits.items()}

    async def as_expected() -> bool:
        return await settled() == ENDS

    try:
        await until(as_expected, timeout_s=60)
    except AssertionError:
        assert await settled() == ENDS
        raise
    await until(
        lambda: db.fetchval("select count(*) = 2 from onceward.payment_refunds where status = 'done'")
    )  # paid twice, too
    assert await db.fetchval("select count(*) from clinic.recordings where status = 'failed'") == 1
    assert await db.fetchval("select count(*) from clinic.inbound_messages where needs_answer") == 1
    assert [result for result in await verify(db, CHECKS) if not result.ok] == []


async def test_an_operator_repairs_and_replays_the_webhook_that_failed(demo: ClinicDemo) -> None:
    db = demo.engine.db
    appointment = await demo.visit("result fails")
    dead = await until(
        lambda: db.fetchrow(
            "select e.seq, onceward.payload_of(e) as payload from onceward.webhook_events e where e.status = 'dead_letter'"
        )
    )
    reference = dead["payload"]["data"]["reference"]
    patient = await db.fetchrow("select p.* from clinic.patients p join clinic.appointments a on a.patient_id = p.id")
    async with db.transaction(role="engine") as tx:
        key = await create_key(tx, name="k", organization=demo.organization, scopes=["operator"], actor="test")
    async with aiohttp.ClientSession(demo.base_url, headers={"Authorization": f"Bearer {key.text}"}) as http:

        async def get(path: str) -> str:
            async with http.get(path) as reply:
                assert reply.status == 200
                return await reply.text()

        assert f"no patient has the reference {reference}" in await get(f"/dashboard/events/{dead['seq']}")
        edit = "/dashboard/clinic/patients/do/edit"
        found = re.search(r'name="stamp" value="([^"]+)"', await get(f"{edit}?ids={patient['id']}"))
        assert found is not None
        form = {
            "ids": str(patient["id"]),
            "stamp": found[1],
            "name": patient["name"],
            "reference": reference,
            "step": "run",
        }
        async with http.post(edit, data=form, allow_redirects=False) as reply:
            assert reply.status == 303, await reply.text()
        assert reference in await get(f"/dashboard/clinic/appointments/row/{appointment}")
        form = {"ids": str(dead["seq"]), "reason": "the reference was missing"}
        async with http.post("/dashboard/dead-letters/replay", data=form, allow_redirects=False) as reply:
            assert reply.status == 303, await reply.text()
        await until(lambda: db.fetchval("select count(*) from onceward.messages where key like 'clinic:lab:%'"))
        tree = await get(f"/dashboard/consequences/{dead['seq']}")
    assert "clinic.answer" in tree
    assert (
        await db.fetchval("select status::text from onceward.webhook_events where seq = $1", dead["seq"]) == "success"
    )
    assert patient["reference"] is None
