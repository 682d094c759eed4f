"""The HTTP server: a small ASGI dispatcher, with FastAPI for the API and the dashboard behind it."""
# pyright: reportUnusedImport=false

from typing import TYPE_CHECKING

from onceward.lazy import lazy

if TYPE_CHECKING:  # names that are not in `__all__` are internal
    from onceward.trust.identity import Identity
    from onceward.web.api import create_api, database_of, engine_of, settings_of
    from onceward.web.asgi import Dispatcher
    from onceward.web.auth import authenticator_of, client_of, require
    from onceward.web.cookies import (
        delete_secret_cookie,
        is_secure,
        require_private_transport,
        secret_cookie,
        set_secret_cookie,
    )
    from onceward.web.dashboard.action import Action, ActionRefused, Done, back
    from onceward.web.dashboard.contribution import Pages
    from onceward.web.dashboard.navigation import Section
    from onceward.web.dashboard.page import Missing, Page, View
    from onceward.web.dashboard.site import Site
    from onceward.web.exposure import ANYBODY, ANYTHING, NOTHING, exposed, grants
    from onceward.web.fields import AtMost
    from onceward.web.login import log_in_with_link
    from onceward.web.paging import link_next
    from onceward.web.problems import Problem, request_id_of
    from onceward.web.server import WebServer
    from onceward.web.settings import WebSettings
    from onceward.web.transactions import request_transaction

__all__ = [
    "ANYBODY",
    "ANYTHING",
    "NOTHING",
    "Action",
    "ActionRefused",
    "AtMost",
    "Done",
    "Identity",
    "Missing",
    "Page",
    "Pages",
    "Problem",
    "Section",
    "Site",
    "View",
    "WebServer",
    "WebSettings",
    "authenticator_of",
    "back",
    "client_of",
    "delete_secret_cookie",
    "engine_of",
    "exposed",
    "grants",
    "is_secure",
    "link_next",
    "log_in_with_link",
    "request_id_of",
    "request_transaction",
    "require",
    "require_private_transport",
    "secret_cookie",
    "set_secret_cookie",
    "settings_of",
]

__getattr__ = lazy(__name__, __file__)
