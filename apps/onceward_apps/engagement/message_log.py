"""Log what became of each message of engagement: ids only, neither numbers nor texts."""

from __future__ import annotations

import structlog

from onceward import DeliveryReport, Tx
from onceward_apps.engagement import metrics
from onceward_apps.engagement.app import app
from onceward_apps.engagement.model import GOODBYE, TEMPLATES, WEEKLY_REVIEW, WEEKLY_VISIT
from onceward_apps.engagement.store import views

log = structlog.get_logger(__name__)

TYPES = {template: message_type for message_type, template in TEMPLATES.items()}
TYPES[WEEKLY_VISIT] = "weekly_review"


@app.on_message("sent", template=GOODBYE)
async def goodbye_sent(tx: Tx, report: DeliveryReport) -> None:
    await _log(tx, report)


@app.on_message("failed", template=GOODBYE)
async def goodbye_failed(tx: Tx, report: DeliveryReport) -> None:
    await _log(tx, report)


@app.on_message("sent", template=WEEKLY_VISIT)
async def visit_sent(tx: Tx, report: DeliveryReport) -> None:
    await _log(tx, report)


@app.on_message("failed", template=WEEKLY_VISIT)
async def visit_failed(tx: Tx, report: DeliveryReport) -> None:
    await _log(tx, report)


@app.on_message("sent", template=WEEKLY_REVIEW)
async def review_sent(tx: Tx, report: DeliveryReport) -> None:
    await _log(tx, report)


@app.on_message("failed", template=WEEKLY_REVIEW)
async def review_failed(tx: Tx, report: DeliveryReport) -> None:
    await _log(tx, report)


async def _log(tx: Tx, report: DeliveryReport) -> None:
    """Write one line. A test message has no user, and leaves no line."""
    rows = await views.queued_messages(tx, [report.message])
    if not rows:
        return
    [row] = rows
    fields = {
        "message_id": report.message,
        "user_id": str(row["user_id"]),
        "message_type": TYPES[report.template],
        "destination": row["destination"],
        "retry_count": row["retry_count"],
        "status": report.state,
    }
    tx.after_commit(lambda: metrics.SENT.labels(TYPES[report.template], report.state).inc())
    if report.state == "failed":
        log.error("engagement.message_failed", **fields, error=report.error)
    else:
        log.info("engagement.message_sent", **fields)
