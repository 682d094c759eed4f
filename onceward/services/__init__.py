"""The external services that an app calls: accounts per organization, clients, files, outcomes and money."""

from typing import TYPE_CHECKING

from onceward.lazy import lazy

if TYPE_CHECKING:
    from onceward.providers.outbound.analytics import AnalyticsEvent
    from onceward.providers.outbound.calcom import Attendee, CalCom
    from onceward.providers.outbound.chat import (
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
    from onceward.providers.outbound.daily import WEBHOOK_FAILED, Daily
    from onceward.providers.outbound.ga4 import Ga4, Ga4Event
    from onceward.providers.outbound.hubspot import CrmRecord, HubSpot
    from onceward.providers.outbound.mixpanel import Mixpanel
    from onceward.providers.outbound.money import (
        SERVICES,
        exponent,
        format_amount,
        format_number,
        from_stripe,
        is_taken_by,
        step,
        to_decimal,
        to_minor,
        to_stripe,
    )
    from onceward.providers.outbound.openai import OpenAI
    from onceward.providers.outbound.outcome import (
        Absent,
        Accepted,
        Lookup,
        Outcome,
        Refused,
        Throttled,
        Unknown,
        Unreachable,
    )
    from onceward.providers.outbound.paypal import PayPal
    from onceward.providers.outbound.segment import Segment, SegmentCall
    from onceward.providers.outbound.stripe import Stripe
    from onceward.services.catalog import CATALOG, ServiceAccount, check_secret_name, resolve_account
    from onceward.services.errors import NotSet
    from onceward.services.files import Files
    from onceward.services.services import SECRETS_TTL_S, SecretStore, ServiceName, Services

__all__ = [
    "CATALOG",
    "SECRETS_TTL_S",
    "SERVICES",
    "WEBHOOK_FAILED",
    "Absent",
    "Accepted",
    "AnalyticsEvent",
    "Attendee",
    "CalCom",
    "ChatBroken",
    "ChatCut",
    "ChatError",
    "ChatMessage",
    "ChatRateLimited",
    "ChatRejected",
    "ChatUnavailable",
    "Completion",
    "CrmRecord",
    "Daily",
    "Files",
    "Ga4",
    "Ga4Event",
    "HubSpot",
    "JsonSchema",
    "Lookup",
    "Mixpanel",
    "ModelRefused",
    "NotSet",
    "OpenAI",
    "Outcome",
    "PayPal",
    "Refused",
    "SecretStore",
    "Segment",
    "SegmentCall",
    "ServiceAccount",
    "ServiceName",
    "Services",
    "Stripe",
    "Throttled",
    "Unknown",
    "Unreachable",
    "Usage",
    "check_secret_name",
    "exponent",
    "format_amount",
    "format_number",
    "from_stripe",
    "is_taken_by",
    "resolve_account",
    "step",
    "to_decimal",
    "to_minor",
    "to_stripe",
]

__getattr__ = lazy(__name__, __file__)
