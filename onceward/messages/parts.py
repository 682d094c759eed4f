"""Factory for the part of a process that sends messages."""

from __future__ import annotations

from onceward.context import Context
from onceward.messages.service import MessageService


def channels(context: Context) -> MessageService:
    engine = context.engine
    return MessageService(
        context.database,
        context.settings,
        engine.templates,
        context.registry,
        waker=engine.waker,
        services=context.app.services,
    )
