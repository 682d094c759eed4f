"""The approved templates of a WhatsApp Business Account: list them, submit one for approval."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode

from onceward.errors import OncewardError
from onceward.http import Response
from onceward.integrations.whatsapp.client import WhatsApp, judge
from onceward.services.call import accepted, call, inner, objects, read_json, write_json
from onceward.services.outcome import Accepted, ServiceAnswer

FIELDS = "name,language,status,category,components,rejected_reason,quality_score"
PAGE = 100
MOST_PAGES = 100


class AccountUnreadable(OncewardError):
    """Meta did not return the templates of the account. `answer` is what it returned instead."""

    def __init__(self, answer: ServiceAnswer) -> None:
        super().__init__(f"{answer.label}: {getattr(answer, 'reason', 'too many requests')}")
        self.answer = answer


@dataclass(frozen=True, slots=True)
class WhatsAppAccount:
    """Calls Meta about one business account, with the token of the sender's account.

    It needs `whatsapp_business_management`.
    """

    whatsapp: WhatsApp = field(repr=False)
    business_account_id: str

    async def list_templates(self) -> list[dict[str, Any]]:
        """Return all templates of the account. Raises `AccountUnreadable`."""
        found: list[dict[str, Any]] = []
        after: str | None = None
        for _ in range(MOST_PAGES):
            query = {"fields": FIELDS, "limit": PAGE} | ({} if after is None else {"after": after})
            answer = await self._call("GET", f"?{urlencode(query)}")
            if not isinstance(answer, Accepted):
                raise AccountUnreadable(answer)
            found += objects(answer.detail, "data")
            after = inner(answer.detail, "paging", "cursors").get("after")
            if after is None or "next" not in inner(answer.detail, "paging"):
                break
        return found

    async def create_template(self, template: Mapping[str, Any]) -> ServiceAnswer:
        """Submit a template for approval. The reference is its id; `detail` has the status, usually PENDING.

        Meta refuses a second template with the same name and language, so a repeated call creates nothing.
        """
        return await self._call("POST", "", write_json(template))

    async def _call(self, method: str, query: str, body: bytes | None = None) -> ServiceAnswer:
        whatsapp = self.whatsapp
        account = quote(self.business_account_id, safe="")
        return await call(
            whatsapp.client,
            method,
            f"{whatsapp.base_url}/{whatsapp.api_version}/{account}/message_templates{query}",
            headers={"Authorization": f"Bearer {whatsapp.token}", "Content-Type": "application/json"},
            body=body,
            judge=_judge,
            timeout_s=whatsapp.timeout_s,
        )


def _judge(response: Response) -> ServiceAnswer:
    answer = read_json(response)
    return accepted(answer.get("id"), answer) if response.ok else judge(response)
