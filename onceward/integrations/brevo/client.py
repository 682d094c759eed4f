"""Brevo: transactional e-mail. Its `idempotencyKey` drops repeats for a period that Brevo does not document."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

from onceward.http import Response
from onceward.integrations.brevo.errors import ERRORS
from onceward.services.accounts import ServiceAccount
from onceward.services.call import Client, accepted, call, judge_failure, read_json, short_reason, write_json
from onceward.services.outcome import Refused, ServiceAnswer, Throttled

BASE_URL = "https://api.brevo.com"

MAX_RECIPIENTS = 99
MAX_PARAMS_BYTES = 100_000


@dataclass(frozen=True, slots=True)
class Mailbox:
    """An address with the name that mail programs show."""

    email: str = field(repr=False)
    name: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Brevo:
    """Calls Brevo with one API key. The idempotency key prevents a duplicate within a short time, not after days.

    `sender` is the account's sender, as `Name <address>`, for callers that have none of their own.
    """

    repeatable: ClassVar[bool] = True

    client: Client = field(repr=False)
    api_key: str = field(repr=False)
    base_url: str = BASE_URL
    timeout_s: float = 30.0
    sender: str | None = None

    @classmethod
    def connect(cls, http: Client, account: ServiceAccount) -> Self:
        return cls(http, account["api_key"], sender=account.get("from"), base_url=account.url or BASE_URL)

    async def check(self) -> ServiceAnswer:
        """Read the account that the key belongs to."""
        return await call(
            self.client,
            "GET",
            f"{self.base_url}/v3/account",
            headers={"api-key": self.api_key, "Accept": "application/json"},
            judge=judge,
            timeout_s=self.timeout_s,
        )

    async def send_email(
        self,
        *,
        key: str,
        sender: Mailbox,
        to: Sequence[Mailbox],
        subject: str | None = None,
        html: str | None = None,
        text: str | None = None,
        template_id: int | None = None,
        params: Mapping[str, Any] | None = None,
        reply_to: Mailbox | None = None,
        tags: Sequence[str] = (),
        headers: Mapping[str, str] | None = None,
        attachments: Sequence[Mapping[str, str]] = (),
    ) -> ServiceAnswer:
        """Send one mail. The reference is Brevo's message id. Attachments are {name, content (base64)}."""
        if (reason := _over_limit(to, params)) is not None:
            return Refused(reason, permanent=True)
        if template_id is None and (subject is None or (html is None and text is None)):
            raise ValueError("without template_id a mail needs a subject, and html or text")
        body: dict[str, Any] = {
            "sender": _mailbox(sender),
            "to": [_mailbox(mailbox) for mailbox in to],
            "subject": subject,
            "htmlContent": html,
            "textContent": text,
            "templateId": template_id,
            "params": dict(params) if params else None,
            "replyTo": _mailbox(reply_to) if reply_to else None,
            "tags": list(tags) or None,
            "attachment": [dict(attachment) for attachment in attachments] or None,
            "headers": {**(headers or {}), "idempotencyKey": key},
        }
        return await call(
            self.client,
            "POST",
            f"{self.base_url}/v3/smtp/email",
            headers={
                "api-key": self.api_key,
                "Content-Type": "application/json",
                "Accept": "application/json",
            },
            body=write_json({name: value for name, value in body.items() if value is not None}),
            judge=judge,
            timeout_s=self.timeout_s,
        )


def judge(response: Response) -> ServiceAnswer:
    answer = read_json(response)
    if response.ok:
        return accepted(answer.get("messageId"), answer)
    # `message` contains the refused address, so only the code is kept.
    reason = short_reason(f"HTTP {response.status}", answer.get("code"))
    known = ERRORS.judge(answer.get("code"), reason)
    if known is not None and not isinstance(known, Throttled):
        return known
    if response.status in (401, 402, 403):
        return Refused(reason, permanent=False, account=True, advice=ERRORS.account["unauthorized"])
    failure = judge_failure(response, repeatable=True, reason=reason)
    if isinstance(failure, Throttled) and failure.retry_after_s is None:
        return Throttled(_reset(response))
    return failure


def _reset(response: Response) -> float | None:
    """Return the seconds until the rate limit resets, from Brevo's own header."""
    try:
        return max(0.0, float(response.headers["x-sib-ratelimit-reset"]))
    except (KeyError, ValueError):
        return None


def _over_limit(to: Sequence[Mailbox], params: Mapping[str, Any] | None) -> str | None:
    if not 1 <= len(to) <= MAX_RECIPIENTS:
        return f"a mail has 1 to {MAX_RECIPIENTS} recipients, not {len(to)}"
    if params and (size := len(write_json(dict(params)))) > MAX_PARAMS_BYTES:
        return f"params have {size} bytes, Brevo takes {MAX_PARAMS_BYTES}"
    return None


def _mailbox(mailbox: Mailbox) -> dict[str, str]:
    return {"email": mailbox.email} if mailbox.name is None else {"email": mailbox.email, "name": mailbox.name}
