"""What services refuse, as reasons on the overview: which account or template, and what to do."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from onceward.statements import read_statement
from onceward.web.dashboard.contribution import Reason, Status
from onceward.web.dashboard.page import View

TROUBLES = read_statement("messages", "page_troubles")
MOST = 5


async def status(view: View) -> Status:
    """Return a reason for each refused account and template. An organization sees its own."""
    rows = await view.conn.fetch(TROUBLES)
    reasons = [_reason(row) for row in rows[:MOST]]
    if len(rows) > MOST:
        text = "More accounts and templates are refused: `onceward messages parked` lists them"
        reasons.append(Reason("attention", text, "/dashboard/messages?state=pending"))
    return Status(reasons=tuple(reasons))


def _reason(row: Any) -> Reason:
    what = "the account" if row["template"] is None else f"the template {row['template']} ({row['language']})"
    whose = f" of {row['slug']}" if row["slug"] else " of an organization" if row["owned"] else ""
    shown = {"state": "pending", "about": row["channel"]}
    if row["template"] is not None:
        shown["label"] = row["template"]
    return Reason(
        "trouble" if row["template"] is None else "attention",
        f"{row['channel']}: the service refuses {what}{whose}, and its messages wait. {row['advice']}",
        f"/dashboard/messages?{urlencode(shown)}",
    )
