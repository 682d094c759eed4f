"""What follows from the answer of a service: the result of the message, or what its attempt raises."""

from __future__ import annotations

from typing import Any, assert_never

from onceward.db import Database
from onceward.messages.channel import Channel
from onceward.messages.errors import Declined, LookLater, MessageParked, MessageRejected
from onceward.messages.kind import Message
from onceward.messages.lines import Line
from onceward.messages.parked_lines import Parkings
from onceward.messages.policies import POLICIES, QUICK
from onceward.messages.preferences import record_service_opt_out
from onceward.messages.suppression import suppress_recipient_of
from onceward.messages.troubles import TemplateText, Troubles
from onceward.services.outcome import Accepted, Refused, ServiceAnswer, Throttled, Unknown, Unreachable
from onceward.work import Claimed, Indeterminate, Retry

FORGET_PUSH = "update onceward.recipients set push = null where organization_id is not distinct from $1 and ref = $2"
"""The browser has ended the subscription; the service would refuse every later push."""


class Answers:
    """Evaluates answers, and records what they say about the account and the recipient."""

    def __init__(self, db: Database, parkings: Parkings, troubles: Troubles, *, look_after_s: float) -> None:
        self._db = db
        self._parkings = parkings
        self._troubles = troubles
        self._look_after_s = look_after_s

    async def evaluate(
        self,
        work: Claimed,
        channel: Channel,
        outcome: ServiceAnswer,
        line: Line,
        *,
        text: TemplateText,
        began: float,
    ) -> dict[str, Any]:
        """Return the result of the message, or raise what happens next. `began` is when its turn began."""
        message: Message = work.body
        parking = self._parkings.of(line)
        policy = POLICIES.get(message.policy, QUICK)
        match outcome:
            case Accepted(reference, detail):
                await parking.works(began=began, is_trial=message.is_trial and line.owner is not None)
                result: dict[str, Any] = {"reference": reference, "channel": message.channel}
                if "destination" in detail:
                    result["destination"] = detail["destination"]
                return result
            case Refused(account=True):
                raise await self._troubles.report(line, text, outcome)
            case Refused(reason, permanent, retry_after_s, detail):
                await parking.works(began=began, is_trial=message.is_trial and line.owner is not None)
                if detail.get("opted_out"):
                    await record_service_opt_out(self._db, message.organization_id, message.recipient, message.channel)
                if status := detail.get("undeliverable"):
                    async with self._db.transaction(role="engine") as tx:
                        await suppress_recipient_of(tx, message.id, reason="bounce", source="relay", status=status)
                if detail.get("gone"):
                    await self._db.execute(FORGET_PUSH, message.organization_id, message.recipient)
                if permanent:
                    raise MessageRejected(reason)
                raise Declined(reason, after=max(policy.wait_s(work.attempts + 1), retry_after_s or 0.0))
            case Throttled(retry_after_s):
                wait_s = await parking.park("the service asked for a pause", for_s=retry_after_s)
                raise MessageParked(wait_s)
            case Unreachable(reason):
                raise MessageParked(await parking.park(reason), reason)
            case Unknown(reason):
                if channel.repeatable_for_s:
                    raise Retry(reason, after=policy.wait_s(work.attempts + 1))
                if channel.readable:
                    raise LookLater(self._look_after_s, reason)
                raise Indeterminate(reason)
            case _:
                assert_never(outcome)
