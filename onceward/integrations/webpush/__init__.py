"""Web Push: notifications in browsers."""

from typing import TYPE_CHECKING

from onceward.lazy import lazy

if TYPE_CHECKING:
    from onceward.integrations.webpush.simulator import SimulatedBrowser, WebPushSimulator

__all__ = ["SimulatedBrowser", "WebPushSimulator"]

__getattr__ = lazy(__name__, __file__)
