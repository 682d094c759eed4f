"""The sources and live handlers that this process knows. It reads them from the database every few seconds.

While the database is unavailable the catalog keeps what it read last. A webhook is then answered 503, not 404.
"""

from __future__ import annotations

import asyncio
import difflib
import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import structlog

from onceward.db import FAILED, Database, loudness
from onceward.errors import OncewardError
from onceward.inbox.environment import Declaration, variable_of
from onceward.inbox.handlers import task_name
from onceward.inbox.source import WITHOUT_APP, Secret, Source, build, unseal
from onceward.statements import named, read_statement
from onceward.trust import SecretBox, find_organization
from onceward.trust.errors import TrustError
from onceward.webhooks.provider import ConfigError
from onceward.webhooks.registry import PROVIDERS

log = structlog.get_logger(__name__)

LIST = "select * from onceward.sources where origin <> 'builtin' and deleted_at is null"
ALIVE = "select distinct t from onceward.workers w, unnest(w.tasks) t"
LOOKS_APART_S = 0.25

DECLARE = named(read_statement("inbox", "declare_source"))


class Elsewhere(OncewardError):
    """The source is declared by the environment of another node or of an earlier start, not by this one."""


class Catalog:
    """Sources by name. `get` reads from memory; `refresh` reads the database."""

    def __init__(
        self,
        db: Database,
        box: SecretBox | None,
        *,
        declared: Sequence[Declaration] = (),
        own_tasks: Iterable[str] = (),
    ) -> None:
        self._db = db
        self._box = box
        self._declared = {each.name: each for each in declared}
        self._sources: dict[str, Source] = {}
        self._broken: dict[str, str] = {}
        self._built: dict[str, tuple[Any, Source]] = {}
        self._own = frozenset(own_tasks)
        self._tasks = self._own
        self._followers: dict[str, tuple[str, ...]] = {}
        self.version = 0
        """Increases with every refresh: values derived from an earlier version may be out of date."""
        self._began = float("-inf")
        self._reading = asyncio.Lock()
        self._looking = asyncio.Lock()
        self._note_followers()

    def get(self, name: str) -> Source | None:
        return self._sources.get(name)

    def is_broken(self, name: str) -> bool:
        """Return whether the source exists but its configuration cannot work."""
        return name in self._broken

    def handles(self, source: Source, type: str) -> str | None:
        """Return the task that handles the type in this process or a live worker.

        A task of the source's route takes precedence. Otherwise it is the provider's handler of the source's app, or of
        the only app that has one.
        """
        own = task_name(source.route, type)
        if own in self._tasks:
            return own
        shared = task_name(source.provider.name, type, app=source.app)
        return shared if shared in self._tasks else None

    def require_clear_routes(self) -> None:
        """Raise ConfigError for a source without an app if several apps of this process handle its events."""
        for source in self._sources.values():
            if source.app is None and source.mode not in WITHOUT_APP:
                self.require_one_app(source.name, source.provider.name)

    def require_one_app(self, source: str, provider: str) -> None:
        """Raise ConfigError if several apps handle events of the provider, and none has a handler for the source alone.

        Two apps of one process that handle the same type give up the task that serves sources without an app.
        """
        apps: dict[str, set[str]] = {}
        for task in self._tasks:
            app, colon, name = task.partition(":")
            if colon and name.startswith(f"{provider}/") and "#" not in name and name not in self._tasks:
                apps.setdefault(name.removeprefix(f"{provider}/"), set()).add(app)
        for type, several in sorted(apps.items()):
            if len(several) > 1 and task_name(source, type) not in self._tasks:
                names = sorted(several)
                raise ConfigError(
                    f"source {source!r}: the apps {' and '.join(names)} handle {provider} events of type {type}, and"
                    f" the source names none of them: run `onceward sources assign {source} {names[0]}`, or set"
                    f" {variable_of(source)}_APP={names[0]} if the source comes from the environment",
                    field="app",
                )

    def warn_of_handlers_without_source(self, handlers: Iterable[str]) -> None:
        """Log the names in handlers that are neither a provider nor a source: these handlers never run.

        A name like that of a provider or source is probably a mistake; another one may get its source later.
        """
        routes = {source.route for source in self._sources.values()} | self._broken.keys()
        names = {task.partition("/")[0] for task in handlers}
        for name in sorted(name for name in names if ":" not in name and name not in PROVIDERS and name not in routes):
            near = difflib.get_close_matches(name, [*PROVIDERS, *routes], n=1, cutoff=0.8)
            hint = f"did you mean {near[0]!r}?" if near else f"`onceward sources add {name}` adds it"
            log.log(logging.WARNING if near else logging.INFO, "handlers.without_source", source=name, hint=hint)

    @property
    def handled_names(self) -> frozenset[str]:
        """Return the source and provider names that handlers of this process or of a live worker use."""
        return frozenset(task.partition("/")[0] for task in self._tasks if "/" in task)

    def followers(self, task: str) -> tuple[str, ...]:
        """Return the jobs that also handle the events of this task."""
        return self._followers.get(task, ())

    @property
    def paced(self) -> bool:
        """Return whether any source has a rate limit."""
        return any(source.rate_per_s for source in self._sources.values())

    def sources(self) -> list[Source]:
        return list(self._sources.values())

    # -- reading -----------------------------------------------------------------------------------------------------

    async def declare(self) -> None:
        """Store the sources of the environment, so that every node and the SQL interface know their ids."""
        for each in self._declared.values():
            async with self._db.acquire() as conn:
                try:
                    organization = None
                    if each.organization is not None:
                        organization = (await find_organization(conn, each.organization)).organization_id
                except TrustError as error:
                    raise ConfigError(f"source {each.name} from the environment: {error}") from None
                v = each.values
                kept = await conn.fetchval(
                    DECLARE.text,
                    *DECLARE.values(
                        webhook_id=each.webhook_id,
                        organization=organization,
                        name=each.name,
                        provider=each.provider,
                        mode=v["mode"],
                        public_url=v["public_url"],
                        tolerance_s=v["tolerance_s"],
                        ordering=v["ordering"],
                        rate_per_s=v["rate_per_s"],
                        requests_per_s=v["requests_per_s"],
                        requests_at_once=v["requests_at_once"],
                        max_body_bytes=v["max_body_bytes"],
                        retention_days=v["retention_days"],
                        app=v["app"],
                    ),
                )
            if kept is None:
                log.warning("source.shadowed", source=each.name, hint="a stored source with this name takes precedence")

    async def refresh(self) -> None:
        """Read sources and live handlers. Sources that did not change keep their object."""
        # One refresh at a time: an older result must not replace a newer one.
        async with self._reading:
            began = time.monotonic()
            async with self._db.acquire() as conn:
                rows = await conn.fetch(LIST)
                alive = await conn.fetch(ALIVE)
            self._take(rows, alive)
            self._began = began

    def _take(self, rows: Sequence[Any], alive: Sequence[Any]) -> None:
        self._tasks = self._own | {row["t"] for row in alive}
        self._note_followers()
        sources: dict[str, Source] = {}
        broken: dict[str, str] = {}
        for row in rows:
            name = row["name"]
            try:
                sources[name] = self._source(row)
            except Elsewhere:
                continue
            except (ConfigError, TrustError) as error:
                broken[name] = str(error)
                if self._broken.get(name) != broken[name]:
                    log.error("source.build_failed", source=name, reason=str(error))
        self._sources, self._broken = sources, broken
        self.version += 1

    async def look_again(self, name: str) -> Source | None:
        """Refresh, because an unknown source may be new.

        One refresh serves all callers that were waiting when it began.
        """
        called_at = time.monotonic()
        async with self._looking:
            if self._began < called_at:
                # Requests for sources that do not exist cause only a few queries per second.
                await asyncio.sleep(self._began + LOOKS_APART_S - called_at)
                try:
                    await self.refresh()
                except FAILED as error:
                    log.log(loudness(error), "sources.read_failed", error=type(error).__name__)
        return self._sources.get(name)

    def _source(self, row: Any) -> Source:
        name = row["name"]
        known = self._built.get(name)
        secrets, hidden = self._secrets_of(row)
        # A rotated secret expires without a change of its row.
        live = tuple(each.value for each in secrets if each.until is None) + tuple(
            each.value for each in secrets if each.until is not None and each.until.timestamp() > time.time()
        )
        version = (row["changed_at"], row["paused_at"], live)
        if known is not None and known[0] == version:
            return known[1]
        source = build(row, secrets, hidden)
        self._built[name] = (version, source)
        return source

    def _secrets_of(self, row: Mapping[str, Any]) -> tuple[Sequence[Secret], Mapping[str, Any]]:
        if row["origin"] == "environment":
            declared = self._declared.get(row["name"])
            if declared is None:
                raise Elsewhere
            return declared.secrets, declared.hidden
        if row["secrets"] is None:
            return (), {}
        if self._box is None:
            raise ConfigError(f"source {row['name']} has sealed secrets: set ONCEWARD_SECRET_KEY for this process")
        return unseal(self._box, row["webhook_id"], row["secrets"])

    def _note_followers(self) -> None:
        by_task: dict[str, list[str]] = {}
        for name in sorted(self._tasks):
            task, mark, _ = name.partition("#")
            if mark and "/" in task:
                by_task.setdefault(task, []).append(name)
        self._followers = {task: tuple(names) for task, names in by_task.items()}
