"""HTTP clients: a guarded one for URLs that come from data, a plain one for configured services.

Of Onceward this package imports only `lazy` and the spans of `telemetry`: aiohttp is loaded for the first request of a
`ServiceClient`.
"""
# pyright: reportUnusedImport=false

from typing import TYPE_CHECKING

from onceward.lazy import lazy

if TYPE_CHECKING:  # names that are not in `__all__` are internal
    from onceward.http.addresses import vet
    from onceward.http.errors import AddressRefused, Ambiguous, HostUnreachable, HttpError, UrlRefused
    from onceward.http.exchange import Response
    from onceward.http.guarded import ClientIdentity, GuardedClient
    from onceward.http.plain import ServiceClient
    from onceward.http.resolver import Resolver, ThreadResolver
    from onceward.http.streaming import StreamedResponse
    from onceward.http.urls import CheckedUrl, check_url, parse_url

__all__ = [
    "ServiceClient",
]

__getattr__ = lazy(__name__, __file__)
