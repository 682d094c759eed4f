"""Meta's events about our account: approval of templates, quality of numbers, restrictions of the account."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from onceward.integrations.whatsapp.errors import ERRORS
from onceward.messages.service_states import AccountEvents, ServiceChange, Severity, TemplateChange
from onceward.webhooks.payload import as_list, as_object, as_text

TEMPLATE, QUALITY, ACCOUNT = "message_template_status_update", "phone_number_quality_update", "account_update"

SEVERITIES: Mapping[str, Mapping[str, Severity]] = {
    TEMPLATE: {
        "FLAGGED": "warn",
        "REJECTED": "error",
        "PAUSED": "error",
        "DISABLED": "error",
        "LOCKED": "error",
        "DELETED": "error",
        "PENDING_DELETION": "error",
    },
    QUALITY: {"FLAGGED": "warn", "DOWNGRADE": "error"},
    ACCOUNT: {
        "DISABLED_UPDATE": "error",
        "ACCOUNT_VIOLATION": "error",
        "ACCOUNT_RESTRICTION": "error",
        "ACCOUNT_DELETED": "error",
        "PARTNER_REMOVED": "error",
    },
}
"""The events that need a person. All others, such as APPROVED, REINSTATED and UNFLAGGED, are good news."""

SENT_AGAIN = ("APPROVED", "REINSTATED")
NOT_SENT: Mapping[str, str] = {"PAUSED": ERRORS.template[132015], "DISABLED": ERRORS.template[132016]}
"""The states in which Meta refuses every message of a template, and what to do."""


def read(type: str, payload: Any) -> ServiceChange | None:
    body = as_object(payload)
    value = as_object(body.get("value"))
    account, state = as_text(body.get("waba_id")), as_text(value.get("event"))
    if not account or not state:
        return None
    severity = SEVERITIES[type].get(state, "info")
    subject, title, reason = _described(type, state, value)
    if type == ACCOUNT and state == "DISABLED_UPDATE" and "REINSTATE" in (reason or ""):
        severity = "info"
    return ServiceChange(
        account=account[:100],
        subject=subject[:300],
        state=state[:100],
        severity=severity,
        title=title[:300],
        reason=None if reason is None else reason[:300],
        at=_moment(body.get("time")),
        template=_template(state, value) if type == TEMPLATE else None,
    )


def _template(state: str, value: dict[str, Any]) -> TemplateChange | None:
    if state not in SENT_AGAIN and state not in NOT_SENT:
        return None
    name, language = as_text(value.get("message_template_name")), as_text(value.get("message_template_language"))
    return TemplateChange(name=name, language=language, advice=NOT_SENT.get(state))


def _described(type: str, state: str, value: dict[str, Any]) -> tuple[str, str, str | None]:
    """Return the subject, the title of a notice, and Meta's reason."""
    if type == TEMPLATE:
        name, language = as_text(value.get("message_template_name")), as_text(value.get("message_template_language"))
        details = as_text(as_object(value.get("other_info")).get("description"))
        reason = as_text(value.get("reason"))
        reasons = " ".join(each for each in (reason, details) if each not in ("", "NONE"))
        title = f"WhatsApp template {name} ({language}) is {state.lower().replace('_', ' ')}"
        return f"template:{name}/{language}", title, reasons or None
    if type == QUALITY:
        number = as_text(value.get("display_phone_number"))
        limit = as_text(value.get("max_daily_conversations_per_business")) or as_text(value.get("current_limit"))
        return f"number:{number}", f"WhatsApp number {number}: quality {state.lower()}", limit or None
    ban, violation = as_object(value.get("ban_info")), as_object(value.get("violation_info"))
    restrictions = [as_text(as_object(each).get("restriction_type")) for each in as_list(value.get("restriction_info"))]
    reason = as_text(ban.get("waba_ban_state")) or as_text(violation.get("violation_type")) or ", ".join(restrictions)
    return "account", f"WhatsApp account: {state.lower().replace('_', ' ')}", reason or None


def _moment(time: Any) -> datetime | None:
    return datetime.fromtimestamp(time, UTC) if isinstance(time, int) and 0 < time < 1 << 33 else None


ACCOUNT_EVENTS = AccountEvents(types=(TEMPLATE, QUALITY, ACCOUNT), read=read)
