"""Typed payloads of senders: `Event[Charge]` with the models in `events.py` of an integration's folder.

The models are imported by those who name them, and by `onceward types`. A process that uses none imports none.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import cast

from pydantic import BaseModel, ConfigDict

from onceward.integration import GROUP, HERE, integrations


class Payload(BaseModel):
    """A part of a sender's payload. Unknown fields are ignored: senders add fields at any time."""

    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True)


def models_of(provider: str) -> Mapping[str, type[Payload]]:
    """Return the models of a sender by the type of event; none for most senders."""
    known = integrations()
    if provider not in known or known.distribution_of(provider) != HERE:
        return {}
    if not (known.folder_of(provider) / "events.py").exists():
        return {}
    return cast(Mapping[str, type[Payload]], import_module(f"{GROUP}.{provider}.events").MODELS)
