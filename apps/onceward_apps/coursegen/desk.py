"""The desk of course generation: slots and costs as its home page, courses, and calls of language models."""

from __future__ import annotations

from onceward.desk import Chart, Column, Desk, Detail, Listing, Related, Role
from onceward_apps.coursegen import pages
from onceward_apps.coursegen.app import HERE, app

CALL = {"started": "Running", "done": "Done", "failed": "Failed", "stopped": "Stopped", "lost": "No answer"}

desk = Desk(
    "coursegen",
    "Courses",
    app,
    table="coursegen.courses",
    languages=HERE / "languages",
    order=90,
    key="c",
    home=(pages.load, "coursegen"),
    roles=(Role("editor", "Editor", "Sees courses and what they cost"),),
)
CALLS = Listing(
    name="calls",
    title="Model calls",
    noun="call",
    rows="coursegen.llm_calls r",
    id_type="bigint",
    roles=("editor",),
    columns=(
        Column("item", "For", sql="replace(r.item, '_', ' ')"),
        Column("model", "Model", filter=True),
        Column("state", "State", words=CALL, tones={"done": "good", "failed": "bad", "lost": "warn"}, filter=True),
        Column(
            "tokens", "Tokens", sql="coalesce(r.prompt_tokens, 0) + coalesce(r.completion_tokens, 0)", kind="number"
        ),
        Column("cost", "Cost", sql="'$' || to_char(r.cost_micros / 1e6, 'FM999990.0000')"),
        Column("started_at", "Started", kind="time", filter=True),
        Column("error", "Error", wide=True),
    ),
    empty="Calls appear here when a course is generated.",
)
COURSES = desk.listing(
    Listing(
        name="courses",
        title="Courses",
        noun="course",
        rows="coursegen.courses r",
        order="-created_at",
        roles=("editor",),
        columns=(
            Column("title", "Title", search=True),
            Column(
                "status",
                "State",
                words=pages.COURSE,
                filter=True,
                tones={"completed": "good", "failed": "bad", "generating": "busy"},
            ),
            Column("lesson_count", "Lessons", kind="number"),
            Column("language", "Language", filter=True, wide=True),
            Column("tier", "Tier", sql="initcap(r.tier)", wide=True),
            Column("created_at", "Created", kind="time", sort=True, filter=True),
        ),
        presets=(("Failed", "status=failed"), ("Being written", "status=generating")),
        empty="Courses appear here when a user has one generated.",
    ),
    detail=Detail(
        title="r.title",
        facts=(
            Column("brief", "What was asked for"),
            Column("error", "Why it failed"),
            Column("attempt", "Attempt", kind="number"),
            Column(
                "cost",
                "Cost",
                sql="(select '$' || to_char(coalesce(sum(c.cost_micros), 0) / 1e6, 'FM999990.0000')"
                " from coursegen.llm_calls c where c.course_id = r.id)",
            ),
            Column("started_at", "Started", kind="time"),
            Column("finished_at", "Ended", kind="time"),
        ),
        related=(Related(CALLS, by="r.course_id"),),
        also=("Course",),
    ),
)
desk.listing(CALLS)
desk.chart(
    Chart(
        name="costs",
        title="Cost of model calls",
        sql="select finished_at::date as at, sum(cost_micros) / 10000 as value from coursegen.llm_calls"
        " where finished_at >= $1 and ($2::uuid is null or organization_id = $2) group by 1",
        currency="USD",
        empty="No model was called in the last 30 days.",
        roles=("editor",),
    )
)
PAGES = desk.pages + pages.PAGES
