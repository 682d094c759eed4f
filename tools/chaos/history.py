"""What one run has seen from the outside: requests with their answers, rows, calls, deliveries, mails, and the end state."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Request:
    """One webhook that was sent. `status` is None if no answer came."""

    n: int
    mode: str
    status: int | None
    sent_s: float
    ended_s: float


@dataclass(frozen=True, slots=True)
class Effect:
    """One row of `chaos.effects`. `started` and `ended` are numbers of one sequence, so that no clock matters."""

    kind: str
    ref: int
    position: int = 0
    started: int | None = None
    ended: int = 0


@dataclass(frozen=True, slots=True)
class Call:
    """One call to the outside service, or one delivery to a customer's endpoint (its key is the webhook id)."""

    kind: str
    ref: int
    key: str


@dataclass(frozen=True, slots=True)
class Message:
    """One message as Onceward recorded it."""

    ref: int
    status: str


@dataclass(slots=True)
class History:
    """Everything that the checker looks at."""

    requests: list[Request] = field(default_factory=list[Request])
    effects: list[Effect] = field(default_factory=list[Effect])
    calls: list[Call] = field(default_factory=list[Call])
    deliveries: list[Call] = field(default_factory=list[Call])
    messages: list[Message] = field(default_factory=list[Message])
    mails: list[int] = field(default_factory=list[int])
    runs: list[int] = field(default_factory=list[int])
    """The due times of all runs that the scheduler has recorded as successful."""
    capacity: int = 0
    sold: int = 0
    lane_limit: int = 0
    slots: int = 0
    ledger_debits: int = 0
    ledger_credits: int = 0
    subscribed: list[int | None] = field(default_factory=list[int | None])
    """The last result that each live subscriber holds."""
    poisoned: list[int] = field(default_factory=list[int])
    """The events whose poisoned job is a dead letter."""
    gaps: list[int] = field(default_factory=list[int])
    """The workflows that ended although their history lacks a step."""
    interruptions: int = 0
    """How many faults were injected."""
    ended_nodes: list[str] = field(default_factory=list[str])
    """Nodes that ended although no fault had ended them."""
    unfinished: list[str] = field(default_factory=list[str])
    dead_letters: list[str] = field(default_factory=list[str])
    failed_checks: list[str] = field(default_factory=list[str])

    @property
    def acknowledged(self) -> set[int]:
        return {request.n for request in self.requests if request.status == 200}

    def refs(self, kind: str) -> list[int]:
        return [effect.ref for effect in self.effects if effect.kind == kind]

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(dataclasses.asdict(self)))

    @classmethod
    def load(cls, path: Path) -> History:
        read: dict[str, Any] = json.loads(path.read_text())
        types = {"requests": Request, "effects": Effect, "calls": Call, "deliveries": Call, "messages": Message}
        return cls(
            **{name: [types[name](**one) for one in value] if name in types else value for name, value in read.items()}
        )
