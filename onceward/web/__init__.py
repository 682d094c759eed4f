"""The HTTP face: a bare dispatcher in front, FastAPI for the API behind it."""

from onceward.web.api import create_api, database_of, engine_of, settings_of
from onceward.web.asgi import Dispatcher
from onceward.web.health import Health
from onceward.web.problems import Problem
from onceward.web.server import WebServer

__all__ = [
    "Dispatcher",
    "Health",
    "Problem",
    "WebServer",
    "create_api",
    "database_of",
    "engine_of",
    "settings_of",
]
