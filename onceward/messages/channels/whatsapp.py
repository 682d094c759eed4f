"""WhatsApp Cloud API. Free text within 24 hours of the person's last message; outside of them an approved template.

A template folder says which approved template stands for it:

    [whatsapp]
    name = "goodbye_2026"
    language = { en = "en_US", pt = "pt_BR" }
    parameters = ["first_name", "days"]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, cast

from onceward.messages.channel import Letter
from onceward.providers.outbound import Accepted, Lookup, Outcome, Refused
from onceward.providers.outbound.whatsapp import WhatsApp

WINDOW = timedelta(hours=24)


class WhatsAppChannel:
    """Sends from one phone number. Groups are for accounts that have them; elsewhere the person is written to."""

    name: Literal["whatsapp"] = "whatsapp"
    repeatable_for_s = 0.0
    readable = False

    def __init__(self, whatsapp: WhatsApp, *, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._whatsapp = whatsapp
        self._now = now
        self.sender = whatsapp.phone_number_id

    async def send(self, letter: Letter) -> Outcome:
        outcome = await self._send(letter)
        if isinstance(outcome, Accepted) and letter.destination == "group":
            # The Cloud API has no groups: the person got it, and the record says so.
            return replace(outcome, detail={**outcome.detail, "destination": "individual"})
        return outcome

    async def _send(self, letter: Letter) -> Outcome:
        if letter.heard_at is not None and self._now() - letter.heard_at < WINDOW:
            return await self._whatsapp.send_text(key=letter.key, to=letter.to, text=letter.rendered.text)
        given = letter.template.options.get("whatsapp")
        if not isinstance(given, Mapping):
            return Refused(
                f"outside the 24-hour window template {letter.template.name!r} needs [whatsapp] with the name of an "
                "approved template",
                permanent=True,
            )
        approved = cast("Mapping[str, Any]", given)
        missing = [name for name in approved.get("parameters", ()) if name not in letter.data]
        if missing:
            return Refused(
                f"the approved template {approved['name']!r} needs {', '.join(missing)}, which the message does not carry",
                permanent=True,
            )
        return await self._whatsapp.send_template(
            key=letter.key,
            to=letter.to,
            name=approved["name"],
            language=_language(approved, letter.rendered.locale),
            parameters=[str(letter.data[name]) for name in approved.get("parameters", ())],
        )

    async def look_up(self, letter: Letter) -> Lookup:
        raise NotImplementedError("WhatsApp tells what became of a send by webhook only")

    async def aclose(self) -> None: ...


def _language(approved: Mapping[str, Any], locale: str) -> str:
    """Meta's name for the language the text was found in."""
    given = approved.get("language", "en")
    return str(cast("Mapping[str, str]", given).get(locale, locale)) if isinstance(given, Mapping) else str(given)
