"""Slack: messages by the Web API (`ok` in the body decides, not the HTTP status) and by incoming webhook."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self
from urllib.parse import urlencode

from onceward.http import Response
from onceward.integrations.slack.errors import ERRORS, WEBHOOK_ERRORS
from onceward.services.accounts import ServiceAccount
from onceward.services.call import (
    Client,
    accepted,
    call,
    inner,
    judge_failure,
    objects,
    read_json,
    retry_after,
    short_reason,
    write_json,
)
from onceward.services.outcome import Absent, Accepted, Lookup, Refused, ServiceAnswer, Unknown

BASE_URL = "https://slack.com"

MAX_TEXT_CHARACTERS = 40_000
MAX_BLOCKS = 50
_EVENT_TYPE = "onceward_message"


@dataclass(frozen=True, slots=True)
class Slack:
    """Calls Slack's Web API with one bot token. `channel` is the one for messages that name none."""

    repeatable: ClassVar[bool] = False

    client: Client = field(repr=False)
    token: str = field(repr=False)
    base_url: str = BASE_URL
    timeout_s: float = 15.0
    channel: str | None = None

    @classmethod
    def connect(cls, http: Client, account: ServiceAccount) -> Self:
        return cls(http, account["bot_token"], channel=account.get("channel"), base_url=account.url or BASE_URL)

    async def check(self) -> ServiceAnswer:
        """Ask Slack whose token this is (`auth.test`)."""
        return await call(
            self.client,
            "POST",
            f"{self.base_url}/api/auth.test",
            headers=self._headers(),
            judge=judge,
            timeout_s=self.timeout_s,
        )

    async def post_message(
        self,
        *,
        key: str,
        channel: str,
        text: str,
        blocks: Sequence[Mapping[str, Any]] = (),
        thread_ts: str | None = None,
    ) -> ServiceAnswer:
        """Post a message. The reference is its ts. The key is sent as metadata, for `find_message`."""
        if (reason := _over_limit(text, blocks)) is not None:
            return Refused(reason, permanent=True)
        body: dict[str, Any] = {
            "channel": channel,
            "text": text,
            "metadata": {"event_type": _EVENT_TYPE, "event_payload": {"key": key}},
        }
        if blocks:
            body["blocks"] = [dict(block) for block in blocks]
        if thread_ts:
            body["thread_ts"] = thread_ts
        return await call(
            self.client,
            "POST",
            f"{self.base_url}/api/chat.postMessage",
            headers={**self._headers(), "Content-Type": "application/json; charset=utf-8"},
            body=write_json(body),
            judge=judge,
            timeout_s=self.timeout_s,
        )

    async def find_message(self, *, key: str, channel: str, oldest_epoch_s: float) -> Lookup:
        """Return the message that was posted with a key since a time. Needs the channel's history scope."""
        query: dict[str, Any] = {
            "channel": channel,
            "oldest": f"{oldest_epoch_s:.6f}",
            "include_all_metadata": "true",
            "limit": 200,
        }
        while True:
            outcome = await call(
                self.client,
                "GET",
                f"{self.base_url}/api/conversations.history?{urlencode(query)}",
                headers=self._headers(),
                judge=judge,
                timeout_s=self.timeout_s,
            )
            if isinstance(outcome, Refused) and outcome.detail.get("code") == "missing_scope":
                # The token may post, but not read: the account can send.
                return Refused(outcome.reason, permanent=True)
            if not isinstance(outcome, Accepted):
                return outcome
            for message in objects(outcome.detail, "messages"):
                if inner(message, "metadata", "event_payload").get("key") == key:
                    return accepted(message.get("ts"), message)
            cursor = inner(outcome.detail, "response_metadata").get("next_cursor")
            if not cursor:
                return Absent()
            query["cursor"] = cursor

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}


@dataclass(frozen=True, slots=True)
class SlackWebhook:
    """Posts to one incoming webhook. Its URL is a secret and comes from data: use a GuardedClient."""

    repeatable: ClassVar[bool] = False

    client: Client = field(repr=False)
    url: str = field(repr=False)
    timeout_s: float = 15.0

    async def post_message(self, *, text: str, blocks: Sequence[Mapping[str, Any]] = ()) -> ServiceAnswer:
        if (reason := _over_limit(text, blocks)) is not None:
            return Refused(reason, permanent=True)
        body: dict[str, Any] = {"text": text}
        if blocks:
            body["blocks"] = [dict(block) for block in blocks]
        return await call(
            self.client,
            "POST",
            self.url,
            headers={"Content-Type": "application/json"},
            body=write_json(body),
            judge=judge_webhook,
            timeout_s=self.timeout_s,
        )


def judge(response: Response) -> ServiceAnswer:
    answer = read_json(response)
    error = answer.get("error")
    if response.ok and answer.get("ok") is True:
        return accepted(answer.get("ts"), answer)
    reason = short_reason("Slack" if response.ok else f"HTTP {response.status}", error)
    known = ERRORS.judge(error, reason, retry_after_s=retry_after(response.headers))
    if known is not None:
        return known
    if not response.ok:
        if response.status in (401, 403):
            return Refused(reason, permanent=False, account=True, advice=ERRORS.account["invalid_auth"])
        return judge_failure(response, repeatable=False, reason=reason)
    if not isinstance(error, str):
        return Unknown("Slack's answer has no field ok")
    return Refused(reason, permanent=True)


def judge_webhook(response: Response) -> ServiceAnswer:
    """Convert a response. Success is 200 with the text `ok`; any other text (`no_service`) is the reason."""
    word = response.body_first_kb[:100].decode("utf-8", "replace").strip()
    if response.ok and word == "ok":
        return Accepted()
    if response.ok:
        return Unknown("the incoming webhook answered 200 without ok")
    reason = short_reason(f"HTTP {response.status}", word)
    known = WEBHOOK_ERRORS.judge(word, reason, retry_after_s=retry_after(response.headers))
    return known or judge_failure(response, repeatable=False, reason=reason)


def _over_limit(text: str, blocks: Sequence[Mapping[str, Any]]) -> str | None:
    if len(text) > MAX_TEXT_CHARACTERS:
        return f"text has {len(text)} characters, Slack takes {MAX_TEXT_CHARACTERS}"
    if len(blocks) > MAX_BLOCKS:
        return f"message has {len(blocks)} blocks, Slack takes {MAX_BLOCKS}"
    return None
