"""Slack: messages of an app or through an incoming webhook."""

from typing import TYPE_CHECKING

from onceward.lazy import lazy

if TYPE_CHECKING:
    from onceward.integrations.slack.client import Slack, SlackWebhook
    from onceward.integrations.slack.simulator import SlackSimulator

__all__ = ["Slack", "SlackSimulator", "SlackWebhook"]

__getattr__ = lazy(__name__, __file__)
