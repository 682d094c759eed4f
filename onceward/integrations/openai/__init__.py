"""OpenAI, and services with the same chat API."""

from typing import TYPE_CHECKING

from onceward.lazy import lazy

if TYPE_CHECKING:
    from onceward.integrations.openai.client import OpenAI
    from onceward.integrations.openai.simulator import ChatCall, OpenAISimulator

__all__ = ["ChatCall", "OpenAI", "OpenAISimulator"]

__getattr__ = lazy(__name__, __file__)
