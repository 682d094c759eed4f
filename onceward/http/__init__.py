"""HTTP clients: a guarded one for URLs that come from data, a plain one for configured services.

This package imports no other package of Onceward.
"""

from .addresses import vet
from .errors import AddressRefused, Ambiguous, HostUnreachable, HttpError, UrlRefused
from .exchange import Response
from .guarded import GuardedClient
from .plain import ServiceClient
from .resolving import Resolver, ThreadResolver
from .streaming import StreamedResponse
from .urls import CheckedUrl, check_url, parse_url

__all__ = [
    "AddressRefused",
    "Ambiguous",
    "CheckedUrl",
    "GuardedClient",
    "HostUnreachable",
    "HttpError",
    "Resolver",
    "Response",
    "ServiceClient",
    "StreamedResponse",
    "ThreadResolver",
    "UrlRefused",
    "check_url",
    "parse_url",
    "vet",
]
