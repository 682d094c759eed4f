"""Daily: video rooms, meetings and recordings."""

from typing import TYPE_CHECKING

from onceward.lazy import lazy

if TYPE_CHECKING:
    from onceward.integrations.daily.client import WEBHOOK_FAILED, Daily
    from onceward.integrations.daily.simulator import DailySimulator

__all__ = ["WEBHOOK_FAILED", "Daily", "DailySimulator"]

__getattr__ = lazy(__name__, __file__)
