"""What webhook senders are made of: the interface of a provider, verification of signatures, payloads and samples.

The senders themselves are in `onceward.integrations`. This package names none of them.
"""

from typing import TYPE_CHECKING

from onceward.lazy import lazy

if TYPE_CHECKING:
    from onceward.webhooks.provider import (
        ConfigError,
        NoOptions,
        Provider,
        ProviderReply,
        ReceivedItem,
        Rejected,
        Request,
        SourceConfig,
    )
    from onceward.webhooks.registry import PROVIDERS, get_provider
    from onceward.webhooks.samples import parse_field

__all__ = [
    "PROVIDERS",
    "ConfigError",
    "NoOptions",
    "Provider",
    "ProviderReply",
    "ReceivedItem",
    "Rejected",
    "Request",
    "SourceConfig",
    "get_provider",
    "parse_field",
]

__getattr__ = lazy(__name__, __file__)
