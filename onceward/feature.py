"""The contract between a package and the whole: a `Feature` says everything that a package contributes.

Each package of the engine declares one in its `feature.py`; an app builds one with decorators. `runtime.py` lists the
engine's. Nothing here imports the rest of Onceward, and whatever is heavy is a reference (`package.module:name`) that is
imported when it is first needed, so that `onceward --help` loads no web framework.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

Role = Literal["web", "worker", "scheduler"]
EVERY_ROLE: frozenset[Role] = frozenset({"web", "worker", "scheduler"})
WEB: frozenset[Role] = frozenset({"web"})
WORKER: frozenset[Role] = frozenset({"worker"})
SCHEDULER: frozenset[Role] = frozenset({"scheduler"})

Reference = str
"""`package.module:name`."""

Stage = Literal["base", "worker", "web", "app"]
STAGES: tuple[Stage, ...] = ("base", "worker", "web", "app")
"""The order in which parts start. They stop in the reverse order: first what takes in work, last what work needs."""


@dataclass(frozen=True, slots=True)
class Migrations:
    """The numbered SQL files of one owner."""

    owner: str
    directory: Path
    before: Path | None = None
    """A repeatable script that runs whenever something is pending, before the first file."""


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a running process. `make(context)` returns something with `start` and `stop`, or None if it is off."""

    name: str
    make: Reference | Callable[[Any], Any]
    roles: frozenset[Role] = EVERY_ROLE
    stage: Stage = "base"


NOBODY = "'00000000-0000-0000-0000-000000000000'::uuid"
OWNERS = f"(array(select o.organization_id from onceward.organizations o) || onceward.organization() || {NOBODY})"
"""Keys are unique per organization, so the organizations that the caller may see come first in every index on a key."""


@dataclass(frozen=True, slots=True)
class AlsoKnownAs:
    """Another name of a row. `where` is SQL over the row `r` and the name `$1`; an index must answer it."""

    where: str
    uuid: bool = False
    """True: only text that is a UUID can be this name."""


def unique_key(column: str = "key") -> AlsoKnownAs:
    """A key that is unique per organization, under an index on (coalesce(organization_id, nobody), key)."""
    return AlsoKnownAs(f"coalesce(r.organization_id, {NOBODY}) = any({OWNERS}) and r.{column} = $1")


@dataclass(frozen=True, slots=True)
class Traced:
    """A table whose rows record what caused them, and how a row appears in the tree of consequences.

    `label`, `at` and `state` are SQL over the row `r`. `organization` is filled in from the catalogue.
    """

    table: str
    kind: str
    id: str = "id"
    caused_by: str = "caused_by"
    label: str = "''"
    at: str = "null"
    state: str = "null"
    names: tuple[AlsoKnownAs, ...] = ()
    organization: str = "null"


@dataclass(frozen=True, slots=True)
class SealedColumn:
    """A column that holds encrypted values; `row` is the column whose text names the row in the encryption."""

    table: str
    row: str
    column: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """Everything that one package contributes. Only `name` is required."""

    name: str
    after: tuple[str, ...] = ()
    """Features that this one builds on: their migrations are applied and their parts started before."""
    migrations: Path | None = None
    before_migrations: Path | None = None
    """A repeatable script that runs before the first pending migration, and before a dump is restored."""
    settings: type[Any] | None = None
    """A `FeatureSettings` model; its fields become `ONCEWARD_<NAME>_<FIELD>`."""
    parts: tuple[Part, ...] = ()
    commands: tuple[Reference, ...] = ()
    """Functions that add commands to a Typer application."""
    routes: Reference | None = None
    """A function of the context that returns the FastAPI routers."""
    mounts: Reference | None = None
    """A function of the context that returns bare ASGI applications with their path prefixes (`web.asgi.Mount`)."""
    error_handlers: Reference | None = None
    """A function that adds exception handlers to the FastAPI application."""
    pages: Reference | None = None
    """What the package adds to the dashboard (`web.dashboard.Pages`)."""
    queries: Reference | None = None
    """A function of the context that returns live queries."""
    checks: Reference | None = None
    """The invariants that `onceward verify` checks."""
    doctor: Reference | None = None
    """What `onceward doctor` looks at in the database."""
    erasers: Reference | None = None
    """How `onceward erase` removes a person's data."""
    traced: tuple[Traced, ...] = ()
    sealed: tuple[SealedColumn, ...] = ()
    metrics: str | None = None
    """The module that declares the package's metrics."""
    errors: tuple[Reference, ...] = ()
    """Exception classes that a command reports as one line instead of a traceback."""

    def __post_init__(self) -> None:
        if not self.name.isidentifier():
            raise ValueError(f"a feature's name must be an identifier, not {self.name!r}")


class FeatureOrder(Exception):
    """Features that cannot be put in an order: one is missing, or they depend on each other in a circle."""


@dataclass(frozen=True, slots=True)
class Features:
    """Features in the order in which they build on each other."""

    ordered: tuple[Feature, ...] = field(default=())

    @classmethod
    def of(cls, given: Iterable[Feature]) -> Features:
        """Sort by `after`, otherwise keep the order given. A missing name, a duplicate or a circle is an error."""
        waiting = list(given)
        names = [each.name for each in waiting]
        for name in names:
            if names.count(name) > 1:
                raise FeatureOrder(f"two features are named {name!r}: rename one of them")
        for each in waiting:
            for needed in each.after:
                if needed not in names:
                    raise FeatureOrder(f"feature {each.name!r} comes after {needed!r}, which is not installed")
        done: list[Feature] = []
        while waiting:
            ready = next((each for each in waiting if all(any(d.name == n for d in done) for n in each.after)), None)
            if ready is None:
                circle = ", ".join(sorted(each.name for each in waiting))
                raise FeatureOrder(f"these features come after each other in a circle: {circle}")
            waiting.remove(ready)
            done.append(ready)
        return cls(tuple(done))

    def __iter__(self) -> Iterator[Feature]:
        return iter(self.ordered)

    def __len__(self) -> int:
        return len(self.ordered)

    def plus(self, more: Iterable[Feature]) -> Features:
        """These and further ones, sorted again. One that is among these already is not added twice."""
        return Features.of((*self.ordered, *(each for each in more if each not in self.ordered)))

    @property
    def migrations(self) -> tuple[Migrations, ...]:
        """The migrations of all features, in order."""
        return tuple(
            Migrations(each.name, each.migrations, before=each.before_migrations)
            for each in self.ordered
            if each.migrations is not None
        )

    @property
    def settings(self) -> tuple[tuple[str, type[Any]], ...]:
        """The features that declare settings: name and model."""
        return tuple((each.name, each.settings) for each in self.ordered if each.settings is not None)

    @property
    def traced(self) -> tuple[Traced, ...]:
        return tuple(table for each in self.ordered for table in each.traced)

    @property
    def sealed(self) -> tuple[SealedColumn, ...]:
        return tuple(column for each in self.ordered for column in each.sealed)

    def parts(self, roles: frozenset[Role]) -> list[Part]:
        """The parts that these roles consist of, in the order of starting."""
        chosen = [part for each in self.ordered for part in each.parts if part.roles & roles]
        return sorted(chosen, key=lambda part: STAGES.index(part.stage))

    def load(self, contribution: str) -> list[Any]:
        """What the features contribute under this field, imported, one entry per feature that has it."""
        found: list[Any] = []
        for each in self.ordered:
            given: Reference | Sequence[Reference] | None = getattr(each, contribution)
            for reference in (given,) if isinstance(given, str) else given or ():
                found.append(resolve(reference))
        return found


def resolve(reference: Reference | Callable[..., Any]) -> Any:
    """Import what a reference names; a module by itself is `package.module`."""
    if not isinstance(reference, str):
        return reference
    module, colon, name = reference.partition(":")
    loaded = import_module(module)
    if not colon:
        return loaded
    try:
        return getattr(loaded, name)
    except AttributeError:
        raise ImportError(f"{reference}: module {module} has no {name}") from None
