"""WhatsApp Cloud API: free text within 24 hours of the person's last message, approved templates at any time.

It has no idempotency keys. Ours is sent as `biz_opaque_callback_data` and returned in the status webhooks, which
resolve an unknown outcome.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self
from urllib.parse import quote

from onceward.http import Response
from onceward.integrations.whatsapp.errors import ERRORS
from onceward.services.accounts import ServiceAccount
from onceward.services.call import (
    Client,
    accepted,
    call,
    inner,
    judge_failure,
    objects,
    read_json,
    short_reason,
    write_json,
)
from onceward.services.outcome import Refused, ServiceAnswer, Throttled, Unknown

BASE_URL = "https://graph.facebook.com"

MAX_TEXT_CHARACTERS = 4096
MAX_CALLBACK_CHARACTERS = 512


@dataclass(frozen=True, slots=True)
class WhatsApp:
    """Sends from one phone number with one system user's token."""

    repeatable: ClassVar[bool] = False

    client: Client = field(repr=False)
    phone_number_id: str
    token: str = field(repr=False)
    base_url: str = BASE_URL
    api_version: str = "v23.0"
    timeout_s: float = 20.0
    business_account_id: str | None = None

    @classmethod
    def connect(cls, http: Client, account: ServiceAccount) -> Self:
        return cls(
            http,
            account["phone_number_id"],
            account["access_token"],
            base_url=account.url or BASE_URL,
            business_account_id=account.get("business_account_id"),
        )

    async def send_text(self, *, key: str, to: str, text: str, preview_url: bool = False) -> ServiceAnswer:
        """Send free text. The reference is the wamid. Outside the 24 hours Meta refuses it permanently."""
        if not 0 < len(text) <= MAX_TEXT_CHARACTERS:
            return Refused(
                f"text has {len(text)} characters, WhatsApp takes 1 to {MAX_TEXT_CHARACTERS}", permanent=True
            )
        return await self._send(key, to, {"type": "text", "text": {"body": text, "preview_url": preview_url}})

    async def send_template(
        self,
        *,
        key: str,
        to: str,
        name: str,
        language: str,
        parameters: Sequence[str] = (),
        components: Sequence[Mapping[str, Any]] = (),
    ) -> ServiceAnswer:
        """Send an approved template. `parameters` fill its body in order; `components` are added."""
        parts: list[dict[str, Any]] = [dict(component) for component in components]
        if parameters:
            # Meta refuses line breaks, tabs and repeated spaces in parameters.
            texts = [{"type": "text", "text": " ".join(parameter.split())} for parameter in parameters]
            parts.insert(0, {"type": "body", "parameters": texts})
        template: dict[str, Any] = {"name": name, "language": {"code": language}}
        if parts:
            template["components"] = parts
        return await self._send(key, to, {"type": "template", "template": template})

    async def check(self) -> ServiceAnswer:
        """Read this account's phone number."""
        return await self.find_number()

    async def find_number(self) -> ServiceAnswer:
        """Return this account's phone number. Meta refuses it to a token that has no access to the number."""
        return await call(
            self.client,
            "GET",
            f"{self.base_url}/{self.api_version}/{quote(self.phone_number_id, safe='')}?fields=id,verified_name",
            headers={"Authorization": f"Bearer {self.token}"},
            judge=judge_number,
            timeout_s=self.timeout_s,
        )

    async def _send(self, key: str, to: str, content: Mapping[str, Any]) -> ServiceAnswer:
        if len(key) > MAX_CALLBACK_CHARACTERS:
            raise ValueError(f"key must have at most {MAX_CALLBACK_CHARACTERS} characters, not {len(key)}")
        body = {
            "messaging_product": "whatsapp",
            "recipient_type": "individual",
            "to": to,
            "biz_opaque_callback_data": key,
            **content,
        }
        return await call(
            self.client,
            "POST",
            f"{self.base_url}/{self.api_version}/{quote(self.phone_number_id, safe='')}/messages",
            headers={"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"},
            body=write_json(body),
            judge=judge,
            timeout_s=self.timeout_s,
        )


def judge_number(response: Response) -> ServiceAnswer:
    answer = read_json(response)
    return accepted(answer.get("id"), answer) if response.ok else judge(response)


def judge(response: Response) -> ServiceAnswer:
    answer = read_json(response)
    if response.ok:
        sent = objects(answer, "messages")
        if not sent or not sent[0].get("id"):
            return Unknown("WhatsApp answered without a message id")
        return accepted(sent[0]["id"], answer)
    error = inner(answer, "error")
    code = error.get("code")
    # Only codes: Meta's texts may contain the phone number.
    reason = short_reason(f"HTTP {response.status}", f"WhatsApp error {code}" if code is not None else None)
    failure = judge_failure(response, repeatable=False, reason=reason)
    after_s = failure.retry_after_s if isinstance(failure, Throttled) else None
    known = ERRORS.judge(code, reason, retry_after_s=after_s)
    if known is not None:
        return known
    if response.status in (401, 403):
        return Refused(reason, permanent=False, account=True, advice=ERRORS.account[190], detail={"code": code})
    if isinstance(code, int) and response.status < 500:
        return Refused(reason, permanent=True, detail={"code": code})
    return failure
