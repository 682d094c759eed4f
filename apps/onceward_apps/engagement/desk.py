"""The desk of engagement: the funnel as its home page, users with their history, and the runs."""

from __future__ import annotations

from uuid import UUID

from pydantic import BaseModel

from onceward import Tx
from onceward.desk import Act, Column, Desk, Detail, Listing, Role
from onceward_apps.engagement import pages
from onceward_apps.engagement.activity import set_opt_out
from onceward_apps.engagement.app import HERE, app
from onceward_apps.engagement.overview import TRIGGER_TEXTS
from onceward_apps.engagement.pages import RUN, STATE

WHY = " ".join(f"when '{trigger}' then '{text.replace('`', '')}'" for trigger, text in TRIGGER_TEXTS.items())
BECAME = " ".join(f"when '{state}' then '{word}'" for state, word in STATE.items())
PERSON = "coalesce(r.whatsapp_jid, 'Nobody can be reached')"

desk = Desk(
    "engagement",
    "Engagement",
    app,
    table="engagement.user_profiles",
    languages=HERE / "languages",
    key="g",
    home=(pages.load, "engagement"),
    roles=(Role("support", "Support", "Sees users, and stops messages to them"),),
)
USERS = desk.listing(
    Listing(
        name="users",
        title="Users",
        noun="user",
        rows="engagement.user_profiles r join engagement.user_engagement_states s"
        " on s.organization_id = r.organization_id and s.user_id = r.user_id",
        id="r.user_id",
        roles=("support",),
        columns=(
            Column("number", "WhatsApp", sql=PERSON, search=True),
            Column(
                "state",
                "State",
                sql="s.state",
                words=STATE,
                tones={"active": "good", "help_flow": "warn", "goodbye_sent": "busy"},
                filter=True,
            ),
            Column("last_activity_at", "Last activity", sql="s.last_activity_at", kind="time", filter=True),
            Column("opted_out", "Wants no messages", sql="r.reengagement_opt_out", kind="yes", filter=True),
            Column("locale", "Language", filter=True, wide=True),
        ),
        presets=(("Want help", "state=help_flow"), ("Want no messages", "opted_out=yes")),
        empty="Create a user with PUT /api/v1/engagement/users/{id}, or run `onceward engagement simulate`.",
    ),
    detail=Detail(
        title=PERSON,
        facts=(
            Column("state_since", "In this state since", sql="s.state_since", kind="time"),
            Column("goodbye_sent_at", "Last goodbye", sql="s.goodbye_sent_at", kind="time"),
            Column("unreachable_because", "Why nobody is reached", sql="replace(s.unreachable_because, '_', ' ')"),
        ),
        timeline=f"select t.at, case t.to_state {BECAME} end || ': '"
        f" || case t.trigger {WHY} else t.trigger end as what, '' as who"
        " from engagement.transitions t where t.user_id = $1::text::uuid",
        documents="select 'What happens next, and why' as title, '/dashboard/engagement/user?id=' || $1 as path",
    ),
)
desk.listing(
    Listing(
        name="runs",
        title="Runs",
        noun="run",
        rows="onceward.run_parts r",
        where="r.schedule in ('engagement-daily', 'engagement-weekly')",
        id="r.run_id || ' ' || r.step",
        id_type="text",
        order="-started_at",
        columns=(
            Column("job", "Run", sql="r.schedule", words=RUN, filter=True),
            Column("check_type", "Check", sql="replace(r.step, '_', ' ')"),
            Column("processed", "Users", kind="number"),
            Column("succeeded", "Done", kind="number"),
            Column("failed", "Failed", kind="number"),
            Column("skipped", "Left out", kind="number", wide=True),
            Column("started_at", "Started", kind="time", sort=True, filter=True),
        ),
        empty="A run that finds nobody leaves no line here.",
    )
)


@desk.action(
    USERS,
    "Stop all messages",
    when="not r.reengagement_opt_out",
    undo="allow",
    roles=("support",),
    causes=("call",),
    reason=True,
)
async def stop(tx: Tx, act: Act[BaseModel]) -> str:
    await set_opt_out(tx, UUID(act.id), True, actor=act.by.actor)
    return "The user gets no messages any more, also none that are queued."


@desk.action(
    USERS, "Allow messages again", when="r.reengagement_opt_out", undo="stop", roles=("support",), causes=("call",)
)
async def allow(tx: Tx, act: Act[BaseModel]) -> str:
    await set_opt_out(tx, UUID(act.id), False, actor=act.by.actor)
    return "The user gets messages again."


PAGES = desk.pages + pages.PAGES
