"""Factory for the part of a process that sends messages."""

from __future__ import annotations

from onceward.context import Context
from onceward.messages.post import PostOffice


def channels(context: Context) -> PostOffice:
    engine = context.engine
    return PostOffice(
        context.database,
        context.settings,
        engine.templates,
        context.registry,
        waker=engine.waker,
        services=context.app.services,
    )
