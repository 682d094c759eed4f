"""The context that a feature's factories receive: the process that they build a part of."""

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
from onceward.work import AppRegistry

T = TypeVar("T")


@dataclass(slots=True)
class Context:
    """One process during its start. A factory finds the parts created before it by their type."""

    app: Onceward
    settings: Settings
    database: Database
    engine: Engine
    features: Features
    roles: frozenset[Role]
    health: Health
    box: SecretBox
    """Encrypts and decrypts stored secrets with the keys of this process."""
    listens: bool = True
    """Whether the web server opens its port. False if the app is mounted in another server."""
    queue_concurrency: dict[str, int] = field(default_factory=dict[str, int])
    """The work items of a queue that a worker process runs at the same time, for queues that a feature limits."""
    _parts: dict[type, Any] = field(default_factory=dict[type, Any])

    @property
    def registry(self) -> AppRegistry:
        return self.app.registry

    def add(self, part: object) -> None:
        """Let factories that run later find this part by its type."""
        self._parts[type(part)] = part

    def part(self, kind: type[T]) -> T:
        """Return the part of this type. Raises LookupError if the roles of this process do not include the part."""
        if kind not in self._parts:
            raise LookupError(f"no {kind.__name__} runs in a process with the roles {', '.join(sorted(self.roles))}")
        return cast(T, self._parts[kind])
