"""The causes and consequences of a row: the tree that `onceward trace` prints.

Ids are unique over all tables, so the tree is read level by level with one statement each, over every table that the
role may read. Row-level security applies: an organization sees only its own part of the tree.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from onceward.db import Connection, Transaction
from onceward.feature import Traced
from onceward.trust.errors import NotFound
from onceward.work.statements import TRACED_COLUMNS, WORK_STATES

DEEPEST = 300

LABELS = ("label", "name", "task", "type", "template", "action", "key", "kind")
TIMES = ("created_at", "at", "received_at", "posted_at", "started_at")
STATES = ("state", "status")
"""A table that no feature declares shows the first of these columns that it has."""


@dataclass(frozen=True, slots=True)
class Node:
    """One row of the tree with its consequences."""

    id: int
    kind: str
    label: str
    state: str | None
    at: datetime | None
    finished_at: datetime | None
    attempts: int | None
    organization_id: UUID | None
    caused_by: int | None
    children: tuple[Node, ...] = ()

    def walk(self) -> Iterator[tuple[int, Node]]:
        """Yield this node and all nodes below it with their depth, each after its cause."""
        waiting = [(0, self)]
        while waiting:
            depth, node = waiting.pop()
            yield depth, node
            waiting += [(depth + 1, child) for child in reversed(node.children)]

    def count(self) -> int:
        return sum(1 for _ in self.walk())

    def as_json(self) -> dict[str, Any]:
        """Return the fields without the children: a chain of jobs may be deeper than a JSON parser allows."""
        return {field.name: getattr(self, field.name) for field in fields(self) if field.name != "children"}


@dataclass(frozen=True, slots=True)
class Trace:
    """`node` with all its consequences. `causes` leads from the root cause to `node`.

    `truncated` means that nodes are missing.
    """

    causes: tuple[Node, ...]
    node: Node
    truncated: bool = False

    def as_json(self) -> dict[str, Any]:
        """Return `causes` from the root down, and `tree`: the node and all below it with their depth, each after its
        cause."""
        return {
            "id": self.node.id,
            "causes": [node.as_json() for node in self.causes],
            "tree": [{"depth": depth, **node.as_json()} for depth, node in self.node.walk()],
            "truncated": self.truncated,
        }


async def trace(conn: Connection | Transaction, ref: int | str, traced: Iterable[Traced], *, most: int = 5000) -> Trace:
    """Return the tree around a row, given its id or another name such as a provider's event id.

    Reads at most `most` consequences and `DEEPEST` levels up and down: a job that enqueues itself makes an endless
    chain.
    """
    tables = await _tables(conn, traced)
    start = await _find(conn, tables, ref)
    if not start:
        raise NotFound(f"no row with the id {ref} exists, or it belongs to another organization")
    causes, cut = await _climb(conn, tables, start[0])
    nodes, truncated = await _descend(conn, tables, start, most)
    nodes = await _with_states(conn, nodes + causes)
    by_id = {node.id: node for node in nodes}
    root = _assemble(by_id[start[0].id], nodes[: len(nodes) - len(causes)])
    return Trace(tuple(by_id[node.id] for node in causes), root, truncated or cut)


async def existing(conn: Connection | Transaction, ids: Collection[int], traced: Iterable[Traced]) -> frozenset[int]:
    """Return those of these ids whose consequences the connection can show: the row exists and may be seen."""
    if not ids:
        return frozenset()
    rows = await conn.fetch(_union(await _tables(conn, traced), "{id} = any($1::bigint[])"), list(ids))
    return frozenset(row["id"] for row in rows)


async def _tables(conn: Connection | Transaction, traced: Iterable[Traced]) -> list[Traced]:
    """Return the declared tables that have the declared columns, and all other tables with a column `caused_by`."""
    declared = {one.table: one for one in traced}
    tables: list[Traced] = []
    for row in await conn.fetch(TRACED_COLUMNS, list(declared)):
        table: str = row["table"]
        columns: set[str] = set(row["columns"])
        bigints: set[str] = set(row["bigints"] or ())
        one = declared.get(table)
        if one is not None and _fits(one, columns, bigints):
            names = tuple(name for name in one.names if columns.issuperset(_used(name.where)))
            tables.append(replace(one, names=names, organization=_organization(columns)))
        elif {"id", "caused_by"} <= bigints:
            tables.append(_guess(table, columns))
    return sorted(tables, key=lambda one: one.table)


def _fits(one: Traced, columns: set[str], bigints: set[str]) -> bool:
    return {one.id, one.caused_by} <= bigints and columns.issuperset(_used(f"{one.label} {one.at} {one.state}"))


def _used(sql: str) -> list[str]:
    """Return the columns of the row `r` that a piece of SQL mentions."""
    return re.findall(r"\br\.(\w+)", sql)


def _organization(columns: set[str]) -> str:
    return "r.organization_id" if "organization_id" in columns else "null"


def _guess(table: str, columns: set[str]) -> Traced:
    def first(names: tuple[str, ...], otherwise: str) -> str:
        return next((f"r.{name}" for name in names if name in columns), otherwise)

    kind = table.rpartition(".")[2].removesuffix("s")
    return Traced(
        table,
        kind,
        label=first(LABELS, "''"),
        at=first(TIMES, "null"),
        state=first(STATES, "null"),
        organization=_organization(columns),
    )


def _union(tables: list[Traced], where: str) -> str:
    """Return a query over all tables. `where` may use {id} and {caused_by}; no part of the SQL comes from a caller."""
    parts = [
        f"select r.{one.id} as id, '{one.kind}' as kind, ({one.label})::text as label, ({one.at})::timestamptz as at,"
        f" ({one.state})::text as state, r.{one.caused_by} as caused_by, ({one.organization})::uuid as organization"
        f" from {_quoted(one.table)} r where " + where.format(id=f"r.{one.id}", caused_by=f"r.{one.caused_by}")
        for one in tables
    ]
    return " union all ".join(parts)


def _quoted(table: str) -> str:
    schema, _, name = table.partition(".")
    return ".".join('"' + part.replace('"', '""') + '"' for part in (schema, name))


async def _find(conn: Connection | Transaction, tables: list[Traced], ref: int | str) -> list[Node]:
    if isinstance(ref, int) or (ref.isascii() and ref.isdigit() and len(ref) < 19):
        rows = await conn.fetch(_union(tables, "{id} = $1"), int(ref))
        if rows or isinstance(ref, int):
            return [_node(row) for row in rows]
    if "\x00" in ref:  # PostgreSQL cannot store NUL
        return []
    ref_uuid = _uuid(ref)
    for one in tables:
        for name in one.names:
            if name.uuid and ref_uuid is None:
                continue
            rows = await conn.fetch(_union([one], name.where) + " limit 1", ref_uuid if name.uuid else ref)
            if rows:
                return [_node(row) for row in rows]
    return []


def _uuid(ref: str) -> UUID | None:
    try:
        return UUID(ref)
    except ValueError:
        return None


async def _climb(conn: Connection | Transaction, tables: list[Traced], node: Node) -> tuple[list[Node], bool]:
    causes: list[Node] = []
    seen = {node.id}
    while node.caused_by is not None and node.caused_by not in seen and len(causes) < DEEPEST:
        rows = await conn.fetch(_union(tables, "{id} = $1"), node.caused_by)
        if not rows:
            break
        node = _node(rows[0])
        seen.add(node.id)
        causes.append(node)
    return causes[::-1], len(causes) >= DEEPEST


async def _descend(
    conn: Connection | Transaction, tables: list[Traced], level: list[Node], most: int
) -> tuple[list[Node], bool]:
    nodes = {node.id: node for node in level}
    levels = 0
    while level and len(nodes) <= most and levels < DEEPEST:
        levels += 1
        room = most - len(nodes) + 1
        query = f"select * from ({_union(tables, '{caused_by} = any($1)')}) nodes order by id limit $2"
        rows = await conn.fetch(query, [node.id for node in level], room)
        level = [_node(row) for row in rows if row["id"] not in nodes]
        nodes |= {node.id: node for node in level}
    return list(nodes.values())[:most], len(nodes) > most or (levels == DEEPEST and bool(level))


async def _with_states(conn: Connection | Transaction, nodes: list[Node]) -> list[Node]:
    """Set the states: unfinished work has its own state, finished work has the outcome of its last attempt."""
    if not await conn.fetchval("select to_regclass('onceward.attempts') is not null"):
        return nodes
    states: dict[int, Any] = {}
    for row in await conn.fetch(WORK_STATES, [node.id for node in nodes]):
        states.setdefault(row["id"], row)
    return [_with_state(node, states.get(node.id)) for node in nodes]


def _with_state(node: Node, row: Any) -> Node:
    if row is None:
        return node
    return replace(node, state=row["state"], attempts=row["attempts"], finished_at=row["finished_at"])


def _assemble(root: Node, nodes: list[Node]) -> Node:
    children: dict[int | None, list[Node]] = {}
    for node in nodes:
        if node.id != root.id:
            children.setdefault(node.caused_by, []).append(node)
    # From the leaves up, so that a long chain needs no deep recursion.
    order, queue = [root], [root]
    while queue:
        below = sorted(children.get(queue.pop().id, ()), key=lambda child: child.id)
        order += below
        queue += below
    built: dict[int, Node] = {}
    for node in reversed(order):
        below = sorted(children.get(node.id, ()), key=lambda child: child.id)
        built[node.id] = replace(node, children=tuple(built[child.id] for child in below))
    return built[root.id]


def _node(row: Any) -> Node:
    return Node(
        id=row["id"],
        kind=row["kind"],
        label=row["label"] or "",
        state=row["state"],
        at=row["at"],
        finished_at=None,
        attempts=None,
        organization_id=row["organization"],
        caused_by=row["caused_by"],
    )
