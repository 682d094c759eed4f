"""Settings of the tools for assistants."""

from __future__ import annotations

from pydantic import Field, SecretStr

from onceward.settings import FeatureSettings


class McpSettings(FeatureSettings):
    """Where `onceward mcp` asks, and with which key."""

    url: str = Field("http://127.0.0.1:8400", description="The installation that `onceward mcp` asks.")
    api_key: SecretStr | None = Field(
        None,
        description=(
            "The API key with which `onceward mcp` asks (`onceward keys add`): the assistant may do what "
            "this key may do."
        ),
    )
