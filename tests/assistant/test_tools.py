"""An assistant reads what its key may read, and replays only if it was allowed to. The client is that of the official SDK."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import orjson
import pytest
from mcp import Client, StdioServerParameters

from onceward.db import Database
from onceward.mcp.errors import NotReachable
from onceward.mcp.server import Installation, server_of
from onceward.mcp.tools import READING, REPLAYING, ToolOperation, tools_of
from onceward.process.process import Process
from onceward.testing import until
from tests.web.operating import client_for, started


@pytest.fixture
async def process(database_url: str) -> AsyncIterator[Process]:
    process = await started(database_url, roles={"web", "worker"})
    yield process
    await process.stop()


def url_of(process: Process) -> str:
    assert process.web is not None
    return process.web.url


async def dead_letter(db: Database, process: Process, organization: Any) -> int:
    async with process.context.engine.transaction(organization=organization) as tx:
        id: int = await tx.fetchval("select onceward.enqueue('fails', $1)", {"order": 7})
    await until(lambda: db.fetchval("select true from onceward.work where id = $1 and dead_reason is not null", id))
    return id


def text_of(result: Any) -> str:
    return result.content[0].text


async def test_the_tools_are_operations_of_the_api_and_read_only(db: Database, process: Process) -> None:
    async with aiohttp.ClientSession(process.web.url if process.web else "") as session:  # the document is public
        async with session.get("/api/v1/openapi.json") as response:
            document = await response.json()
    tools = tools_of(document, replays=True)
    known = {(tool.method, tool.path) for tool in tools}
    assert known == {*READING, *REPLAYING}
    assert {tool.path for tool in tools if tool.replays} == {path for _, path in REPLAYING}
    assert [tool.path for tool in tools if tool.method != "get" and not tool.replays] == ["/api/v1/rehearsals"]
    assert len({tool.name for tool in tools}) == len(tools)
    assert "$ref" not in orjson.dumps([tool.schema for tool in tools]).decode()


@pytest.mark.parametrize("value", ["", ".", "..", ["1"], {"id": 1}, None])
def test_an_argument_cannot_lead_to_another_operation(value: Any) -> None:
    replay = ToolOperation(
        name="events_replay", description="", method="post", path="/api/v1/events/{event}/replay", replays=True,
        parameters={"event": "path"}, schema={"properties": {"event": {}}, "required": ["event"]},
    )  # fmt: skip
    assert replay.request({"event": "a/../b?c"})[0] == "/api/v1/events/a%2F..%2Fb%3Fc/replay"
    with pytest.raises(ValueError, match="event"):
        replay.request({"event": value})


async def test_an_assistant_on_standard_input_and_output_finds_out_what_failed(db: Database, process: Process) -> None:
    async with aiohttp.ClientSession(url_of(process)) as session:
        ours = await client_for(db, session, "ours", "viewer")
        theirs = await client_for(db, session, "theirs", "viewer")
    id = await dead_letter(db, process, ours.organization)
    environment = {**os.environ, "ONCEWARD_MCP_URL": url_of(process), "ONCEWARD_MCP_API_KEY": ours.key}
    command = StdioServerParameters(command=sys.executable, args=["-m", "onceward", "mcp"], env=environment)
    async with Client(command) as assistant:
        assert assistant.server_info is not None
        names = {tool.name: tool for tool in (await assistant.list_tools()).tools}
        assert all(tool.annotations is not None and tool.annotations.read_only_hint for tool in names.values())
        assert not any("replay" in name or "resend" in name for name in names)
        groups = orjson.loads(text_of(await assistant.call_tool("dead_letters_groups_list", {})))
        assert [(group["task"], group["count"]) for group in groups] == [("fails", 1)]
        traced = await assistant.call_tool("trace_get", {"ref": str(id)})
        assert not traced.is_error
        assert "fails" in text_of(traced)
        refused = await assistant.call_tool("trace_get", {"reference": "1"})
        assert refused.is_error
        assert "has no argument reference and needs the argument ref" in text_of(refused)
    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {theirs.key}"}) as session:
        installation = Installation(session, url_of(process))
        async with Client(server_of(installation, await installation.tools(replays=False))) as assistant:
            assert text_of(await assistant.call_tool("dead_letters_groups_list", {})) == "[]"
            missing = await assistant.call_tool("dead_letters_get", {"id": id})
            assert missing.is_error


@pytest.mark.parametrize(("scope", "done"), [("operator", True), ("viewer", False)])
async def test_a_replay_needs_permission_twice_and_is_audited(
    db: Database, process: Process, scope: str, done: bool
) -> None:
    async with aiohttp.ClientSession(url_of(process)) as session:
        ours = await client_for(db, session, "ours", scope)
    id = await dead_letter(db, process, ours.organization)
    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {ours.key}"}) as session:
        installation = Installation(session, url_of(process))
        tools = await installation.tools(replays=True)
        name = next(tool.name for tool in tools if tool.path == "/api/v1/dead-letters/{id}/replay")
        async with Client(server_of(installation, tools)) as assistant:
            answer = await assistant.call_tool(name, {"id": id, "reason": "the warehouse is back"})
        assert answer.is_error is not done
        reasons = await db.fetch("select reason from onceward.audit_log where action = 'dead_letter.replay'")
        assert [row["reason"] for row in reasons] == (["the warehouse is back"] if done else [])


async def test_a_wrong_address_or_key_says_what_to_set(process: Process) -> None:
    async with aiohttp.ClientSession(headers={"Authorization": "Bearer wrong"}) as session:
        with pytest.raises(NotReachable, match="refuses the API key"):
            await Installation(session, url_of(process)).tools(replays=False)
        with pytest.raises(NotReachable, match="start it with `onceward serve`"):
            await Installation(session, "http://127.0.0.1:9").tools(replays=False)


async def test_a_long_answer_is_cut_and_says_so(process: Process, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onceward.mcp.server.LONGEST_ANSWER", 20)
    async with aiohttp.ClientSession() as session:
        installation = Installation(session, url_of(process))
        async with session.get(f"{url_of(process)}/api/v1/openapi.json") as response:
            tool = tools_of(await response.json(), replays=False)[0]
        text, failed = await installation.call(tool, {})
        assert failed  # without a key
        assert "(cut after 20 characters" in text
