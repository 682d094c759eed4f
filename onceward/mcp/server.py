"""The server that an assistant starts and speaks to on standard input and output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import aiohttp

from onceward import __version__
from onceward.extras import extra
from onceward.mcp.errors import NotReachable
from onceward.mcp.tools import ToolOperation, tools_of

if TYPE_CHECKING:
    import mcp_types as types
    from mcp.server.context import ServerRequestContext
    from mcp.server.lowlevel.server import Server

TIMEOUT_S = 60.0
LONGEST_ANSWER = 200_000
"""The most characters of an answer: what an assistant can read. A longer one is cut, and says so."""
INSTRUCTIONS = (
    "Onceward receives webhooks and runs jobs, messages, schedules and workflows, each exactly once. Start with"
    " dead_letters_groups_list (what failed and why) or trace_get (why something happened and what followed from it)."
    " Replays change data; they ask for a reason, which is written into the audit log."
)


class Installation:
    """One installation of Onceward, asked with one API key."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self._url = url.rstrip("/")

    async def tools(self, *, replays: bool) -> list[ToolOperation]:
        """Return the tools that the installation has for this key. Raises `NotReachable`."""
        address = f"{self._url}/api/v1/openapi.json"
        try:
            async with self._session.get(f"{self._url}/api/v1/me") as response:
                if response.status in (401, 403):
                    raise NotReachable(
                        f"{self._url} refuses the API key (HTTP {response.status}): create one with `onceward keys add`"
                        " and set ONCEWARD_MCP_API_KEY"
                    )
            async with self._session.get(address) as response:
                if response.status != 200:
                    raise NotReachable(
                        f"{address} answers {response.status}: is ONCEWARD_MCP_URL an installation of Onceward?"
                    )
                return tools_of(await response.json(), replays=replays)
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise NotReachable(
                f"{address} cannot be read ({type(error).__name__}): start it with `onceward serve`, or set "
                f"ONCEWARD_MCP_URL"
            ) from error

    async def call(self, tool: ToolOperation, arguments: Mapping[str, Any]) -> tuple[str, bool]:
        """Call the operation. Return the text of the answer, and whether it is an error."""
        try:
            path, query, body = tool.request(arguments)
        except ValueError as error:
            return str(error), True
        try:
            async with self._session.request(tool.method, self._url + path, params=query, json=body) as response:
                text = await response.text()
                failed = response.status >= 400
        except (aiohttp.ClientError, TimeoutError) as error:
            return f"{self._url} gave no answer ({type(error).__name__}). {_after_lost(tool)}", True
        if len(text) > LONGEST_ANSWER:
            text = (
                f"{text[:LONGEST_ANSWER]}\n(cut after {LONGEST_ANSWER} characters: ask for fewer rows with `limit` "
                f"or a filter)"
            )
        return text, failed


def _after_lost(tool: ToolOperation) -> str:
    if tool.replays:
        return "It is unknown whether the replay began: look at the row before you repeat it."
    return "Nothing was changed; try again."


def server_of(installation: Installation, tools: Sequence[ToolOperation]) -> Server[Any]:
    """Return the server with these tools. Raises `ExtraMissing`."""
    with extra("mcp", "`onceward mcp`"):
        import mcp_types as types
        from mcp.server.lowlevel.server import Server
    by_name = {tool.name: tool for tool in tools}
    described = [
        types.Tool(
            name=tool.name,
            description=tool.description,
            input_schema=tool.schema,
            annotations=types.ToolAnnotations(
                read_only_hint=not tool.replays,
                destructive_hint=False,
                idempotent_hint=not tool.replays,
                open_world_hint=False,
            ),
        )
        for tool in tools
    ]

    async def list_tools(
        _context: ServerRequestContext[Any], _params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=described)

    async def call_tool(
        _context: ServerRequestContext[Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        tool = by_name.get(params.name)
        if tool is None:
            text, failed = f"there is no tool {params.name}; there are: {', '.join(by_name)}", True
        else:
            text, failed = await installation.call(tool, params.arguments or {})
        return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=failed)

    return Server(
        "onceward", version=__version__, instructions=INSTRUCTIONS, on_list_tools=list_tools, on_call_tool=call_tool
    )


async def serve(url: str, api_key: str, *, replays: bool) -> None:
    """Answer the assistant on standard input and output until it closes them. Raises `NotReachable`, `ExtraMissing`."""
    with extra("mcp", "`onceward mcp`"):
        from mcp.server.stdio import stdio_server
    headers = {"Authorization": f"Bearer {api_key}", "User-Agent": f"onceward-mcp/{__version__}"}
    async with aiohttp.ClientSession(headers=headers, timeout=aiohttp.ClientTimeout(total=TIMEOUT_S)) as session:
        installation = Installation(session, url)
        server = server_of(installation, await installation.tools(replays=replays))
        async with stdio_server() as (read, write):
            await server.run(read, write, server.create_initialization_options())
