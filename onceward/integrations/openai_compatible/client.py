"""The client of the service: that of OpenAI, at another address with another key."""

from __future__ import annotations

from onceward.integrations.openai.client import OpenAI


class OpenAICompatible(OpenAI):
    """Calls one more service with OpenAI's chat API."""

    __slots__ = ()
