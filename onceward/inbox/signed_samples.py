"""Create webhooks as a provider would send them, with valid signatures. For trying things out and for tests."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from onceward.webhooks.provider import ConfigError, SourceConfig
from onceward.webhooks.registry import get_provider

STALE_BY_S = 60


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A webhook request, ready to be posted."""

    body: bytes = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    event_id: str = ""
    query: str = ""


def compose(
    config: SourceConfig,
    type: str,
    *,
    fields: Mapping[str, Any] | None = None,
    path: str = "",
    stale: bool = False,
    bad_signature: bool = False,
) -> Outgoing:
    """Create a webhook with new ids. `stale` signs it with an old time, `bad_signature` changes it after signing."""
    provider = get_provider(config.provider)
    body = provider.encode(provider.sample(type, fields))
    return sign(config, body, type=type, path=path, stale=stale, bad_signature=bad_signature)


def sign(
    config: SourceConfig,
    body: bytes,
    *,
    type: str,
    path: str = "",
    event_id: str = "",
    stale: bool = False,
    bad_signature: bool = False,
) -> Outgoing:
    """Sign a body with the current time, or with an expired time if `stale` is set."""
    provider = get_provider(config.provider)
    # Only a provider of unknown senders has the option `allow_unsigned`.
    needs_secret = provider.needs_secret and not getattr(config.settings, "allow_unsigned", False)
    if needs_secret and not config.keys:
        raise ConfigError(f"this process has no secret for the {provider.name} source: give one with --secret")
    now = time.time() - (config.tolerance_s + STALE_BY_S if stale else 0)
    request = provider.request(config, body, now, type=type, path=path, event_id=event_id)
    headers, body = dict(request.headers), request.body
    if bad_signature:
        headers, body = provider.forge(config, headers, body)
    return Outgoing(body, headers, event_id, request.query)
