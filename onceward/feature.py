"""The contract between a package and the rest of Onceward: a `Feature` lists everything that a package contributes.

Each package of the engine declares one in its `feature.py`; an app builds one with decorators. `runtime.py` lists the
engine's features. This module imports nothing else of Onceward. Heavy modules are references (`package.module:name`)
that are imported when they are first needed, so that `onceward --help` loads no web framework.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

from onceward.errors import OncewardError

__all__ = [
    "EVERY_ROLE",
    "SCHEDULER",
    "WEB",
    "WORKER",
    "AlsoKnownAs",
    "Feature",
    "Migrations",
    "Part",
    "Role",
    "SealedColumn",
    "SqlState",
    "Traced",
    "unique_key",
]

Role = Literal["web", "worker", "scheduler"]
"""What a process does: it serves HTTP, runs work, or starts schedules. `onceward up` has all three roles."""
EVERY_ROLE: frozenset[Role] = frozenset({"web", "worker", "scheduler"})
"""For a part that each process needs."""
WEB: frozenset[Role] = frozenset({"web"})
"""For a part that only processes with an HTTP server need."""
WORKER: frozenset[Role] = frozenset({"worker"})
"""For a part that only workers need."""
SCHEDULER: frozenset[Role] = frozenset({"scheduler"})
"""For a part that only schedulers need."""

Reference = str
"""`package.module:name`."""

Stage = Literal["base", "worker", "web", "app"]
STAGES: tuple[Stage, ...] = ("base", "worker", "web", "app")
"""The order in which parts start. Parts stop in the reverse order, so that running work keeps what it needs."""


@dataclass(frozen=True, slots=True)
class Migrations:
    """The numbered SQL files of one owner, and the repeatable files with its functions."""

    owner: str
    directory: Path
    functions: Path | None = None
    """The folder whose `*.sql` files are applied again whenever they change."""
    before: Path | None = None
    """A repeatable script that runs before the first pending migration."""


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a running process. `make(context)` returns an object with `start` and `stop`, or None if it is off."""

    name: str
    make: Reference | Callable[[Any], Any]
    roles: frozenset[Role] = EVERY_ROLE
    stage: Stage = "base"


NOBODY = "'00000000-0000-0000-0000-000000000000'::uuid"
OWNERS = (
    "(array(select o.organization_id from onceward.organizations o where onceward.organization() is null)"
    f" || onceward.organization() || {NOBODY})"
)
"""The organizations that the caller may see: the one that the transaction acts for, or else all. Keys are unique per
organization, so each index on a key begins with it."""


@dataclass(frozen=True, slots=True)
class AlsoKnownAs:
    """Another name of a row. `where` is SQL over the row `r` and the name `$1`; it must be able to use an index."""

    where: str
    uuid: bool = False
    """Whether the name must be a UUID."""


def unique_key(column: str = "key") -> AlsoKnownAs:
    """Name a row by a key that is unique per organization, with an index on (coalesce(organization_id, nobody),
    key)."""
    return AlsoKnownAs(f"coalesce(r.organization_id, {NOBODY}) = any({OWNERS}) and r.{column} = $1")


@dataclass(frozen=True, slots=True)
class Traced:
    """A table whose rows record their cause, and how a row appears in the tree of consequences.

    `label`, `at` and `state` are SQL over the row `r`. The engine fills in `organization` from the system catalogue.
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
class SqlState:
    """A SQLSTATE of class OW that a package's SQL raises."""

    code: str
    meaning: str


@dataclass(frozen=True, slots=True)
class SealedColumn:
    """A `bytea` column with encrypted values: `SealedColumn("shop.keys", "key_id", "private_key")`.

    `row` is the column that identifies the row, such as the primary key (uuid, integer or text). A value can only be
    decrypted in the table, row and column that it was encrypted for. An app declares the column with
    `Onceward(..., sealed=[column])`, encrypts with `engine.seal` and decrypts with `engine.unseal`.
    """

    table: str
    row: str
    column: str

    def __post_init__(self) -> None:
        schema, dot, table = self.table.partition(".")
        if not dot or not (schema.isidentifier() and table.isidentifier()):
            raise ValueError(f"the table of a sealed column must have the form schema.table, not {self.table!r}")
        for name, value in (("row", self.row), ("column", self.column)):
            if not value.isidentifier():
                raise ValueError(f"the {name} of a sealed column must be the name of a column, not {value!r}")

    def __str__(self) -> str:
        return f"{self.table}.{self.column}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """Everything that one package contributes. Only `name` is required."""

    name: str
    after: tuple[str, ...] = ()
    """Features that this one depends on. Their migrations are applied first and their parts start first."""
    migrations: Path | None = None
    functions: Path | None = None
    """The folder of repeatable SQL files: functions, views and triggers. They are applied after the migrations."""
    growth: Reference | None = None
    """How each table is bounded: a mapping of its name to what deletes its rows and when, or why they are kept."""
    before_migrations: Path | None = None
    """A repeatable script that runs before the first pending migration, and before a dump is restored."""
    settings: type[Any] | Reference | None = None
    """A `FeatureSettings` model; its fields become `ONCEWARD_<NAME>_<FIELD>`, or begin with the prefix of the model."""
    further_settings: Reference | None = None
    """A function that returns further settings models, each with the name in its variables: those of the
    integrations."""
    parts: tuple[Part, ...] = ()
    commands: tuple[Reference, ...] = ()
    """Functions that add commands to a Typer application."""
    late_commands: tuple[Reference, ...] = ()
    """The same, for commands that are slow to find. They are added when help is printed or a name is not known yet."""
    routes: Reference | None = None
    """A function of the context that returns the FastAPI routers."""
    mounts: Reference | None = None
    """A function of the context that returns bare ASGI applications with their path prefixes (`web.asgi.Mount`)."""
    error_handlers: Reference | None = None
    """A function that adds exception handlers to the FastAPI application."""
    pages: Reference | None = None
    """The pages that the package adds to the dashboard (`web.dashboard.Pages`)."""
    queries: Reference | None = None
    """A function of the context that returns live queries."""
    checks: Reference | None = None
    """The invariants that `onceward verify` checks."""
    doctor: Reference | None = None
    """The database checks that `onceward doctor` runs."""
    configuration: Reference | None = None
    """The sections of the file of `onceward apply` (`onceward.configuration.Section`)."""
    erasers: Reference | None = None
    """The erasers with which `onceward erase` removes a person's data."""
    traced: tuple[Traced, ...] = ()
    sealed: tuple[SealedColumn, ...] = ()
    move_back: str | None = None
    """The SQL function `onceward.move_back_<name>`, which moves the package's times back after the database's clock
    did."""
    metrics: str | None = None
    """The module that declares the package's metrics."""
    alerts: Path | None = None
    """A file with Prometheus alert rules about the package's metrics, one group (`onceward alerts` prints all)."""
    sqlstates: Reference | None = None
    """The SQLSTATEs that the package's SQL raises: a tuple of `SqlState`."""
    errors: tuple[Reference, ...] = ()
    """Exception classes that a command reports as one line instead of a traceback."""

    def __post_init__(self) -> None:
        if not self.name.isidentifier():
            raise ValueError(f"a feature's name must be an identifier, not {self.name!r}")
        if self.functions is not None and self.migrations is None:
            raise ValueError(f"feature {self.name!r} has functions and no migrations: the schema needs a migration")


class FeatureOrder(OncewardError):
    """The features cannot be ordered: one is missing, two have one name, or they depend on each other in a circle."""


@dataclass(frozen=True, slots=True)
class Features:
    """Features in the order of their dependencies."""

    ordered: tuple[Feature, ...] = field(default=())

    @classmethod
    def of(cls, given: Iterable[Feature]) -> Features:
        """Sort by `after`, otherwise keep the given order. Raises `FeatureOrder`."""
        waiting = list(given)
        names = [each.name for each in waiting]
        for name in names:
            if names.count(name) > 1:
                raise FeatureOrder(f"two features are named {name!r}: rename one of them")
        for each in waiting:
            for needed in each.after:
                if needed not in names:
                    raise FeatureOrder(f"feature {each.name!r} depends on {needed!r}, which is not installed")
        done: list[Feature] = []
        while waiting:
            ready = next((each for each in waiting if all(any(d.name == n for d in done) for n in each.after)), None)
            if ready is None:
                circle = ", ".join(sorted(each.name for each in waiting))
                raise FeatureOrder(f"these features depend on each other in a circle: {circle}")
            waiting.remove(ready)
            done.append(ready)
        return cls(tuple(done))

    def __iter__(self) -> Iterator[Feature]:
        return iter(self.ordered)

    def __len__(self) -> int:
        return len(self.ordered)

    def plus(self, more: Iterable[Feature]) -> Features:
        """Return these features and more, sorted again. A feature that is already here is not added twice."""
        return Features.of((*self.ordered, *(each for each in more if each not in self.ordered)))

    @property
    def migrations(self) -> tuple[Migrations, ...]:
        """Return the migrations of all features, in order."""
        return tuple(
            Migrations(each.name, each.migrations, functions=each.functions, before=each.before_migrations)
            for each in self.ordered
            if each.migrations is not None
        )

    @property
    def alerts(self) -> tuple[Path, ...]:
        """Return the files with alert rules, in order."""
        return tuple(each.alerts for each in self.ordered if each.alerts is not None)

    @property
    def settings(self) -> tuple[tuple[str, type[Any]], ...]:
        """Return the name and the settings model of each feature and integration that declares settings."""
        own = tuple((each.name, resolve(each.settings)) for each in self.ordered if each.settings is not None)
        return (*own, *(pair for further in self.load("further_settings") for pair in further()))

    @property
    def traced(self) -> tuple[Traced, ...]:
        return tuple(table for each in self.ordered for table in each.traced)

    @property
    def sealed(self) -> tuple[SealedColumn, ...]:
        return tuple(column for each in self.ordered for column in each.sealed)

    def parts(self, roles: frozenset[Role]) -> list[Part]:
        """Return the parts of these roles, in starting order."""
        chosen = [part for each in self.ordered for part in each.parts if part.roles & roles]
        return sorted(chosen, key=lambda part: STAGES.index(part.stage))

    def load(self, contribution: str) -> list[Any]:
        """Import and return what the features declare in this field, one entry per reference."""
        loaded: list[Any] = []
        for each in self.ordered:
            declared: Reference | Sequence[Reference] | None = getattr(each, contribution)
            for reference in (declared,) if isinstance(declared, str) else declared or ():
                loaded.append(resolve(reference))
        return loaded


def resolve(reference: Reference | Callable[..., Any]) -> Any:
    """Import the object that a reference names, or the module if the reference has no colon."""
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
