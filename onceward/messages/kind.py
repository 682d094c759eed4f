"""Messages as a kind of work: how a worker loads a claimed message and its recipient."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, time
from typing import Any, Literal
from uuid import UUID

from onceward.db import Connection

LOAD = """
select m.id, m.organization_id, m.key, m.channel, m.template, m.version, m.category, m.data, m.policy, m.recipient,
       coalesce(m.address, case m.channel
           when 'email' then r.email
           when 'sms' then r.phone
           when 'whatsapp' then coalesce(r.whatsapp, r.phone)
           when 'slack' then r.slack
           when 'push' then r.push::text
           when 'dashboard' then m.recipient end) as address,
       coalesce(m.locale, r.locale) as locale, coalesce(m.timezone, r.timezone) as timezone,
       m.token, coalesce(m.unsure_since, m.sending_since) as sending_since, r.quiet_from, r.quiet_to, r.heard_at, coalesce(r.destination, 'individual') as destination,
       onceward.now() as now
  from onceward.messages m
  left join onceward.recipients r
    on r.ref = m.recipient
   and coalesce(r.organization_id, '00000000-0000-0000-0000-000000000000')
       = coalesce(m.organization_id, '00000000-0000-0000-0000-000000000000')
 where m.id = any($1::bigint[])
"""


@dataclass(frozen=True, slots=True)
class Message:
    """A message as it was queued, with the current data of its recipient."""

    id: int
    organization_id: UUID | None
    key: str
    channel: str
    template: str
    version: str
    category: str
    data: Mapping[str, Any] | None = field(repr=False)
    policy: str
    recipient: str = field(repr=False)
    address: str | None = field(repr=False)
    locale: str | None
    timezone: str | None
    token: UUID | None
    sending_since: datetime | None
    quiet_from: time | None
    quiet_to: time | None
    heard_at: datetime | None
    destination: str
    now: datetime


class MessageKind:
    """Loads claimed messages for the worker."""

    name: Literal["message"] = "message"

    async def load(self, conn: Connection, ids: list[int]) -> Mapping[int, Message]:
        return {row["id"]: Message(*row) for row in await conn.fetch(LOAD, ids)}
