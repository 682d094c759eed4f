"""A learning platform: cohorts that fill, run, cancel and certify. It uses Onceward's public API only."""

from onceward_apps.learning import event_types, schedules, stripe_handlers, subscription_handlers
from onceward_apps.learning.app import app

__all__ = ["app", "event_types", "schedules", "stripe_handlers", "subscription_handlers"]
