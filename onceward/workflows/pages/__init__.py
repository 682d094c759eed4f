"""The dashboard pages of workflows."""

from onceward.workflows.pages.workflows import PAGES

__all__ = ["PAGES"]
