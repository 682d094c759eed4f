"""The feature `mcp`: one command."""

from __future__ import annotations

from onceward.feature import Feature

FEATURE = Feature(
    name="mcp",
    settings="onceward.mcp.settings:McpSettings",
    commands=("onceward.mcp.commands:register",),
    errors=("onceward.mcp.errors:NotReachable",),
)
