"""The external services that an app calls: accounts per organization, files, and the outcomes of calls."""
# pyright: reportUnusedImport=false

from typing import TYPE_CHECKING

from onceward.lazy import lazy

if TYPE_CHECKING:  # names that are not in `__all__` are internal
    from onceward.services.accounts import ServiceAccount, callable_services, check_secret_name, resolve_account
    from onceward.services.analytics import AnalyticsEvent
    from onceward.services.chat import (
        ChatBroken,
        ChatCut,
        ChatError,
        ChatMessage,
        ChatRateLimited,
        ChatRejected,
        ChatUnavailable,
        Completion,
        JsonSchema,
        ModelRefused,
        Usage,
    )
    from onceward.services.chat_stream import ChatModel, ChatStream
    from onceward.services.errors import NotSet
    from onceward.services.files import Files
    from onceward.services.outcome import (
        Absent,
        Accepted,
        Lookup,
        Refused,
        ServiceAnswer,
        Throttled,
        Unknown,
        Unreachable,
    )
    from onceward.services.services import SECRETS_TTL_S, SecretStore, Services
    from onceward.services.settings import integration_settings, load_integration_settings, service_settings

__all__ = [
    "Absent",
    "Accepted",
    "AnalyticsEvent",
    "ChatBroken",
    "ChatCut",
    "ChatError",
    "ChatMessage",
    "ChatModel",
    "ChatRateLimited",
    "ChatRejected",
    "ChatUnavailable",
    "JsonSchema",
    "Lookup",
    "ModelRefused",
    "NotSet",
    "Refused",
    "ServiceAnswer",
    "Throttled",
    "Unknown",
    "Unreachable",
    "Usage",
    "service_settings",
]

__getattr__ = lazy(__name__, __file__)
