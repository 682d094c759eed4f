"""`onceward types`: TypeScript types of live queries and event types."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import BaseModel

from onceward import Onceward, Query
from onceward.cli.types import type_declarations

ROOT = Path(__file__).parents[2]


class Line(BaseModel):
    article: str
    count: int
    parts: list[Line] = []


class Order(BaseModel):
    id: int
    state: Literal["open", "paid"]
    lines: list[Line]
    note: str | None = None


def make_app() -> Onceward:
    app = Onceward("shop")
    app.event_type("order.paid", Order, sample={"id": 1, "state": "paid", "lines": []})
    app.event_type("order.seen", sample={"id": 1})

    @app.query
    async def orders(q: Query, *, customer: str, newest: int = 10) -> list[Order]:  # pyright: ignore[reportUnusedFunction]
        return []

    @app.query(name="shop.anything")
    async def anything(q: Query) -> Any: ...  # pyright: ignore[reportUnusedFunction]

    return app


def test_arguments_and_results_have_the_types_of_the_function() -> None:
    text = type_declarations(make_app())
    assert '  "orders": { args: { "customer": string; "newest"?: number }; result: Array<OrdersOrder> };\n' in text
    assert '  "shop.anything": { args: Arguments | null; result: unknown };\n' in text
    assert (
        'export type OrdersOrder = { "id": number; "state": "open" | "paid"; "lines": Array<OrdersLine>;'
        ' "note"?: string | null };\n' in text
    )
    assert '"parts"?: Array<OrdersLine> };\n' in text
    assert '"order.seen": ' in text


USE = """
import { LiveClient } from "onceward-live";
import type { EventTypes, TypedLiveClient } from "./shop";
const client = new LiveClient() as TypedLiveClient;
client.subscribe("orders", { customer: "7" }, ({ data }) => { const first: string | undefined = data?.[0]?.lines[0]?.article; });
const paid: EventTypes["order.paid"] = { id: 1, state: "paid", lines: [] };
// @ts-expect-error: no such query
client.fetch("order", {});
// @ts-expect-error: the argument is a text
client.fetch("orders", { customer: 7 });
"""


@pytest.mark.slow
@pytest.mark.peer
@pytest.mark.skipif(shutil.which("npm") is None, reason="apt install npm")
def test_the_typescript_compiler_accepts_the_types_and_finds_mistakes(tmp_path: Path) -> None:
    installed = subprocess.run(
        ["npm", "install", "--silent", "--no-audit", "--no-fund", "typescript@5", str(ROOT / "clients" / "js")],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    if installed.returncode != 0:
        pytest.skip(f"npm cannot install TypeScript here: {installed.stderr[-200:]}")
    (tmp_path / "shop.ts").write_text(type_declarations(make_app()))
    (tmp_path / "use.ts").write_text(USE)
    options = {"strict": True, "noEmit": True, "module": "preserve", "moduleResolution": "bundler"}
    (tmp_path / "tsconfig.json").write_text(json.dumps({"compilerOptions": options, "files": ["use.ts"]}))
    done = subprocess.run(
        ["node_modules/.bin/tsc", "-p", "."], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=200
    )
    assert done.returncode == 0, done.stdout
