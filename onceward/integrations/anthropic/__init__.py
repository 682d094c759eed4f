"""Anthropic: chat with Claude models."""

from typing import TYPE_CHECKING

from onceward.lazy import lazy

if TYPE_CHECKING:
    from onceward.integrations.anthropic.client import Anthropic
    from onceward.integrations.anthropic.simulator import AnthropicSimulator

__all__ = ["Anthropic", "AnthropicSimulator"]

__getattr__ = lazy(__name__, __file__)
