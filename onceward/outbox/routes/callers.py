"""Who may call the routes of the outbox, and what several of them share."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Query
from pydantic import BaseModel, Field

from onceward.db import Database
from onceward.engine import Engine
from onceward.outbox import Outbox, resends
from onceward.trust import Identity
from onceward.web.api import database_of, engine_of, part_of
from onceward.web.auth import require
from onceward.web.fields import AtMost

Db = Annotated[Database, Depends(database_of)]
Eng = Annotated[Engine, Depends(engine_of)]
TheOutbox = Annotated[Outbox, Depends(part_of(Outbox))]
Viewer = Annotated[Identity, Depends(require("viewer"))]
Operator = Annotated[Identity, Depends(require("operator"))]
Publisher = Annotated[Identity, Depends(require("operator", permission="publish", own_key=True))]
Replayer = Annotated[Identity, Depends(require("operator", permission="replay"))]
Owner = Annotated[Identity, Depends(require("owner"))]
RecentOwner = Annotated[Identity, Depends(require("owner", recent=True))]
Admin = Annotated[Identity, Depends(require("admin"))]
Limit = Annotated[int, Query(ge=1, le=500)]
Types = Annotated[list[str], AtMost(1000)]
Channels = Annotated[list[str], AtMost(20)]
Rate = Annotated[float, Field(ge=0.1, le=resends.MOST_PER_STEP)]
"""How many deliveries a resend sends in a second."""


class MadeEvent(BaseModel):
    id: int
    message_id: str
    deliveries: int
    duplicate: bool


def sees_all(identity: Identity) -> bool:
    return identity.organization is None and identity.may("admin")
