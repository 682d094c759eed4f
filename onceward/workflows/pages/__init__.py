"""What workflows add to the dashboard."""

from onceward.workflows.pages.workflows import PAGES

__all__ = ["PAGES"]
