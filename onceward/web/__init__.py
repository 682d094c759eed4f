"""The HTTP server: a small ASGI dispatcher, with FastAPI for the API and the dashboard behind it."""

from typing import TYPE_CHECKING

from onceward.lazy import lazy

if TYPE_CHECKING:
    from onceward.trust.identity import Identity
    from onceward.web.api import create_api, database_of, engine_of, settings_of
    from onceward.web.asgi import Dispatcher
    from onceward.web.auth import authenticator_of, client_of, require
    from onceward.web.dashboard.contribution import Pages
    from onceward.web.dashboard.navigation import Section
    from onceward.web.fields import AtMost
    from onceward.web.problems import Problem
    from onceward.web.server import WebServer

__all__ = [
    "AtMost",
    "Dispatcher",
    "Identity",
    "Pages",
    "Problem",
    "Section",
    "WebServer",
    "authenticator_of",
    "client_of",
    "create_api",
    "database_of",
    "engine_of",
    "require",
    "settings_of",
]

__getattr__ = lazy(__name__, __file__)
