"""PostHog: batches of events."""

from typing import TYPE_CHECKING

from onceward.lazy import lazy

if TYPE_CHECKING:
    from onceward.integrations.posthog.client import PostHog
    from onceward.integrations.posthog.simulator import PostHogSimulator

__all__ = ["PostHog", "PostHogSimulator"]

__getattr__ = lazy(__name__, __file__)
