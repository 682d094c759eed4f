"""The external services that an app calls: accounts per organization, clients, files, outcomes and money."""

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
from onceward.providers.outbound.stripe import Stripe

from .catalog import CATALOG, Account, check_secret_name, resolve_account
from .errors import NotSet
from .files import Files
from .services import SECRETS_TTL_S, SecretStore, ServiceName, Services

__all__ = [
    "CATALOG",
    "SECRETS_TTL_S",
    "SERVICES",
    "Absent",
    "Accepted",
    "Account",
    "Files",
    "Lookup",
    "NotSet",
    "Outcome",
    "PayPal",
    "Refused",
    "SecretStore",
    "ServiceName",
    "Services",
    "Stripe",
    "Throttled",
    "Unknown",
    "Unreachable",
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
