"""What the fragments of the documentation are executed in: an app, an engine on a database, and the names a page assumes."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import onceward
from onceward import Engine, Onceward, Tx
from onceward.db import Database
from onceward.testing import TestInbox
from tests.docs.test_code_blocks import ROOT, CodeBlock

TABLES = """
create table orders (id int primary key, amount int, paid boolean, packed boolean, confirmed_at timestamptz, message_key text);
create table enrolments (id int primary key, expired boolean not null default false, extended boolean not null default false);
create table slots (job bigint, free boolean);
create table parcels (id serial primary key, order_id int);
grant all on all tables in schema public to onceward_app;
grant all on all sequences in schema public to onceward_app;
insert into orders (id, amount) values (1, 4200);
"""
PUBLIC = {name: getattr(onceward, name) for name in onceward.__all__}
"""Fragments leave out the imports from `onceward` that the page has shown before."""


@dataclass
class World:
    """One fragment and what it may use."""

    block: CodeBlock
    app: Onceward
    engine: Engine
    database_url: str
    folder: Path

    @property
    def root(self) -> Path:
        return ROOT

    @property
    def db(self) -> Database:
        return self.engine.db

    async def run(self, **names: Any) -> Mapping[str, Any]:
        """Execute the fragment with these names. Return what it defined."""
        namespace: dict[str, Any] = {
            "__name__": "documented",
            "app": self.app,
            "engine": self.engine,
            **PUBLIC,
            **names,
        }
        result = eval(self.block.compiled(), namespace)
        if inspect.isawaitable(result):
            await result
        return namespace

    async def organization(self) -> UUID:
        """Create an organization."""
        return await self.db.fetchval(
            "insert into onceward.organizations (slug, name) values ('school', 'School') returning organization_id"
        )

    async def run_in_tx(self, organization: UUID | None = None, /, **names: Any) -> Mapping[str, Any]:
        """Execute the fragment in a transaction named `tx`, which is committed."""
        async with self.engine.transaction(organization=organization) as tx:
            return await self.run(tx=tx, **names)

    @asynccontextmanager
    async def inbox(self, source: str, **options: Any) -> AsyncIterator[TestInbox]:
        async with TestInbox(self.engine, self.app) as inbox:
            await inbox.add_source(source, **options)
            yield inbox

    def job(self, name: str) -> Any:
        """Return a job of this name that takes any of the arguments of the pages."""

        @self.app.job(name=name)
        async def run(tx: Tx, *, order: int = 0, order_id: int = 0, course_id: int = 0) -> None:
            """Do nothing."""

        return run


Scene = Callable[[World], Awaitable[None]]


@dataclass(frozen=True)
class Place:
    """A block is found by a part of the path of its page, and a text that only this block of the page contains."""

    page: str
    text: str

    def holds(self, block: CodeBlock) -> bool:
        return self.page in block.page.as_posix() and self.text in block.code


SCENES: dict[Place, Scene] = {}


def scene(page: str, text: str) -> Callable[[Scene], Scene]:
    """Register the function as the one that executes a fragment and looks at what it did."""

    def register(function: Scene) -> Scene:
        SCENES[Place(page, text)] = function
        return function

    return register
