"""What a factory of a feature receives: the process that it becomes a part of."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from onceward.app import Onceward
from onceward.db import Database
from onceward.engine import Engine
from onceward.feature import Features, Role
from onceward.health import Health
from onceward.settings import Settings
from onceward.trust.secrets import SecretBox
from onceward.work import Registry

T = TypeVar("T")


@dataclass(slots=True)
class Context:
    """One process, while it is put together. Parts made earlier are found by their type."""

    app: Onceward
    settings: Settings
    database: Database
    engine: Engine
    features: Features
    roles: frozenset[Role]
    health: Health
    box: SecretBox
    """Opens and seals stored secrets with the keys of this process."""
    queue_concurrency: dict[str, int] = field(default_factory=dict[str, int])
    """How much of a queue a worker process runs at once, where a feature says so."""
    _parts: dict[type, Any] = field(default_factory=dict[type, Any])

    @property
    def registry(self) -> Registry:
        return self.app.registry

    def add(self, part: object) -> None:
        """Let factories that run later find this part by its type."""
        self._parts[type(part)] = part

    def part(self, kind: type[T]) -> T:
        """The part of this type; LookupError names the type if the roles of this process do not include it."""
        if kind not in self._parts:
            raise LookupError(f"no {kind.__name__} runs in a process with the roles {', '.join(sorted(self.roles))}")
        return cast(T, self._parts[kind])
