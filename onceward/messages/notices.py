"""Notices to administrators: rows written in the caller's transaction, which the notifier turns into messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from onceward.db import Transaction
from onceward.messages.recipient import CHANNELS, ChannelName
from onceward.trust import severity as severity_named

Audience = Literal["admin", "fraud", "accounting", "security"]


async def notify_admins(
    tx: Transaction,
    type: str,
    severity: str,
    title: str,
    details: Mapping[str, Any] | None = None,
    channels: Sequence[ChannelName] | None = None,
    *,
    audience: Audience = "admin",
    group: str | None = None,
) -> int:
    """Write a notice and return its id. The default channels are email, slack and dashboard.

    Notices of one `group` share a message; the default group is the type.
    """
    unknown = [each for each in channels or () if each not in CHANNELS]
    if unknown:
        raise ValueError(f"unknown channels {unknown}: use {', '.join(CHANNELS)}")
    return await tx.fetchval(
        "select onceward.notify($1, $2, $3, $4, $5, $6, $7)",
        type,
        severity_named(severity),
        title,
        dict(details or {}),
        None if channels is None else list(channels),
        audience,
        group,
    )
