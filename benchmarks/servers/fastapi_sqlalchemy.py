"""A typical first version: FastAPI, one ORM session and one commit per request.

`/webhooks/stripe` stores the event. `/webhooks/inline` also handles it, with one row as its effect in the same
transaction, as the handler of our inline source does.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from typing import Any

from fastapi import FastAPI, HTTPException, Request
from sqlalchemy import BigInteger, Text, text
from sqlalchemy.dialects.postgresql import JSONB, insert
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from benchmarks.servers import SECRET


class Base(DeclarativeBase):
    pass


class WebhookEvent(Base):
    __tablename__ = "webhook_events"
    __table_args__ = {"schema": "onceward_bench"}  # noqa: RUF012
    id: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    provider: Mapped[str] = mapped_column(Text)
    event_id: Mapped[str] = mapped_column(Text)
    type: Mapped[str] = mapped_column(Text)
    payload: Mapped[dict[str, Any]] = mapped_column(JSONB)
    status: Mapped[str] = mapped_column(Text, server_default=text("'pending'"))


class Effect(Base):
    __tablename__ = "effects"
    __table_args__ = {"schema": "onceward_bench"}  # noqa: RUF012
    id: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    event_id: Mapped[str] = mapped_column(Text)


async def make(url: str) -> Any:
    engine = create_async_engine("postgresql+asyncpg://" + url.split("://", 1)[1], pool_size=20, max_overflow=0)
    session = async_sessionmaker(engine, expire_on_commit=False, class_=AsyncSession)
    api = FastAPI()

    async def verified(request: Request) -> dict[str, Any]:
        body = await request.body()
        parts = dict(part.split("=", 1) for part in request.headers["stripe-signature"].split(","))
        expected = hmac.new(SECRET.encode(), parts["t"].encode() + b"." + body, hashlib.sha256).hexdigest()
        if not hmac.compare_digest(expected, parts["v1"]) or abs(time.time() - int(parts["t"])) > 300:
            raise HTTPException(400, "bad signature")
        event = json.loads(body)
        return {"provider": "stripe", "event_id": event["id"], "type": event["type"], "payload": event}

    async def receive(request: Request) -> dict[str, str]:
        values = await verified(request)
        async with session() as db:
            await db.execute(insert(WebhookEvent).values(**values).on_conflict_do_nothing())
            await db.commit()
        return {"status": "ok"}

    async def handle(request: Request) -> dict[str, bool]:
        values = await verified(request)
        async with session() as db:
            new = insert(WebhookEvent).values(**values).on_conflict_do_nothing().returning(WebhookEvent.id)
            if await db.scalar(new) is not None:
                db.add(Effect(event_id=values["event_id"]))
            await db.commit()
        return {"done": True}

    api.post("/webhooks/stripe")(receive)
    api.post("/webhooks/inline")(handle)
    return api
