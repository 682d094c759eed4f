"""Twilio: text messages. It has no idempotency keys; an unknown outcome is looked up by recipient, text and time."""

from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any, ClassVar, Self
from urllib.parse import quote, urlencode

from onceward.http import Response
from onceward.integrations.twilio.errors import ERRORS, SHORT_CODE
from onceward.services.accounts import ServiceAccount
from onceward.services.call import (
    Client,
    accepted,
    call,
    judge_failure,
    objects,
    read_json,
    retry_after,
    short_reason,
    write_form,
    write_json,
)
from onceward.services.outcome import Absent, Accepted, Lookup, Refused, ServiceAnswer

BASE_URL = "https://api.twilio.com"

MAX_BODY_CHARACTERS = 1600
MAX_MEDIA = 10
# Twilio's clock and ours may differ by this much.
_CLOCK_SLACK = timedelta(minutes=2)


@dataclass(frozen=True, slots=True)
class Twilio:
    """Calls one Twilio account, with its auth token or an API key (`api_key_sid` and its secret).

    `sender` is the phone number or messaging service (`MG...`) for messages that name none.
    """

    repeatable: ClassVar[bool] = False

    client: Client = field(repr=False)
    account_sid: str
    secret: str = field(repr=False)
    api_key_sid: str | None = None
    sender: str | None = None
    base_url: str = BASE_URL
    timeout_s: float = 20.0

    @classmethod
    def connect(cls, http: Client, account: ServiceAccount) -> Self:
        return cls(
            http,
            account["account_sid"],
            account["auth_token"],
            sender=account.get("from"),
            base_url=account.url or BASE_URL,
        )

    async def check(self) -> ServiceAnswer:
        """Read the account."""
        return await call(
            self.client,
            "GET",
            self._url("")[:-1] + ".json",
            headers=self._headers(),
            judge=judge,
            timeout_s=self.timeout_s,
        )

    async def send_message(
        self,
        *,
        to: str,
        body: str | None = None,
        from_: str | None = None,
        messaging_service_sid: str | None = None,
        media_urls: Sequence[str] = (),
        content_sid: str | None = None,
        content_variables: Mapping[str, str] | None = None,
        status_callback: str | None = None,
        validity_s: int | None = None,
    ) -> ServiceAnswer:
        """Send a message. The reference is its sid. After Unknown, call `find_message` before a retry."""
        if from_ is None and messaging_service_sid is None and self.sender is not None:
            from_, messaging_service_sid = split_sender(self.sender)
        if (from_ is None) == (messaging_service_sid is None):
            raise ValueError("a message needs either from_ or messaging_service_sid, or the account a default sender")
        if body is None and content_sid is None and not media_urls:
            raise ValueError("a message needs body, media_urls or content_sid")
        if body is not None and len(body) > MAX_BODY_CHARACTERS:
            return Refused(f"body has {len(body)} characters, Twilio takes {MAX_BODY_CHARACTERS}", permanent=True)
        if len(media_urls) > MAX_MEDIA:
            return Refused(f"message has {len(media_urls)} media, Twilio takes {MAX_MEDIA}", permanent=True)
        variables = write_json(dict(content_variables)).decode() if content_variables else None
        fields: list[tuple[str, str | None]] = [
            ("To", to),
            ("From", from_),
            ("MessagingServiceSid", messaging_service_sid),
            ("Body", body),
            ("ContentSid", content_sid),
            ("ContentVariables", variables),
            ("StatusCallback", status_callback),
            ("ValidityPeriod", None if validity_s is None else str(validity_s)),
            *(("MediaUrl", url) for url in media_urls),
        ]
        return await call(
            self.client,
            "POST",
            self._url("Messages.json"),
            headers={**self._headers(), "Content-Type": "application/x-www-form-urlencoded"},
            body=write_form([(name, value) for name, value in fields if value is not None]),
            judge=_judge_short_code if from_ is not None and is_short_code(from_) else judge,
            timeout_s=self.timeout_s,
        )

    async def find_message(self, *, to: str, body: str, sent_after: datetime, from_: str | None = None) -> Lookup:
        """Return the message with this text to this number since a time, whatever its status.

        Two equal texts to one number cannot be distinguished: the newer one is returned.
        """
        since = sent_after.astimezone(UTC) - _CLOCK_SLACK
        query = {"To": to, "DateSent>": since.strftime("%Y-%m-%d"), "PageSize": "100"}
        if from_ is not None:
            query["From"] = from_
        url: str | None = self._url(f"Messages.json?{urlencode(query)}")
        while url is not None:
            outcome = await call(
                self.client, "GET", url, headers=self._headers(), judge=judge, timeout_s=self.timeout_s
            )
            if not isinstance(outcome, Accepted):
                return outcome
            for message in objects(outcome.detail, "messages"):
                if _is_same(message, to, body) and _created(message) >= since:
                    return accepted(message.get("sid"), message)
            following = outcome.detail.get("next_page_uri")
            url = f"{self.base_url}{following}" if isinstance(following, str) and following else None
        return Absent()

    async def find_number(self, number: str) -> Lookup:
        """Return the phone number if it belongs to this account; `Absent` if it does not."""
        outcome = await call(
            self.client,
            "GET",
            self._url(f"IncomingPhoneNumbers.json?{urlencode({'PhoneNumber': number, 'PageSize': '20'})}"),
            headers=self._headers(),
            judge=judge,
            timeout_s=self.timeout_s,
        )
        if not isinstance(outcome, Accepted):
            return outcome
        # Twilio also returns numbers that only contain the digits.
        owned = objects(outcome.detail, "incoming_phone_numbers")
        found = next((each for each in owned if each.get("phone_number") == number), None)
        return Absent() if found is None else accepted(found.get("sid"), found)

    async def fetch_message(self, sid: str) -> ServiceAnswer:
        """Return the status of a message, for a status callback that was lost."""
        return await call(
            self.client,
            "GET",
            self._url(f"Messages/{quote(sid, safe='')}.json"),
            headers=self._headers(),
            judge=judge,
            timeout_s=self.timeout_s,
        )

    def _url(self, path: str) -> str:
        return f"{self.base_url}/2010-04-01/Accounts/{quote(self.account_sid, safe='')}/{path}"

    def _headers(self) -> dict[str, str]:
        user = self.api_key_sid or self.account_sid
        return {"Authorization": "Basic " + b64encode(f"{user}:{self.secret}".encode()).decode("ascii")}


def split_sender(sender: str) -> tuple[str | None, str | None]:
    """Return the phone number and the messaging service that a sender is: exactly one of them is not None."""
    return (None, sender) if sender.startswith("MG") else (sender, None)


def judge(response: Response) -> ServiceAnswer:
    answer = read_json(response)
    if response.ok:
        return accepted(answer.get("sid"), answer)
    code = answer.get("code")
    # `message` contains the phone number; the code alone is sufficient.
    reason = short_reason(f"HTTP {response.status}", f"Twilio error {code}" if code else None)
    failure = judge_failure(response, repeatable=False, reason=reason)
    known = ERRORS.judge(code, reason, retry_after_s=retry_after(response.headers))
    if known is not None:
        return known
    if response.status in (401, 403):
        return Refused(reason, permanent=False, account=True, advice=ERRORS.account[20003])
    return failure


def is_short_code(sender: str) -> bool:
    return sender.isascii() and sender.isdigit() and len(sender) <= 6


def _judge_short_code(response: Response) -> ServiceAnswer:
    """Judge an answer to a message from a short code, which reaches only the recipients of its country."""
    answer = judge(response)
    if isinstance(answer, Refused) and answer.detail.get("code") in SHORT_CODE:
        return Refused(answer.reason, permanent=True, detail=answer.detail, recipient=True)
    return answer


def _is_same(message: Mapping[str, Any], to: str, body: str) -> bool:
    # A trial account adds a sentence before the text.
    return message.get("to") == to and str(message.get("body")).endswith(body)


def _created(message: Mapping[str, Any]) -> datetime:
    """Return when Twilio accepted a message. An unreadable time counts as very old."""
    try:
        return parsedate_to_datetime(str(message.get("date_created"))).astimezone(UTC)
    except ValueError:
        return datetime.min.replace(tzinfo=UTC)
