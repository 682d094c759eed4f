"""The same post office as the inbox's own tests."""

from tests.inbox.conftest import office

__all__ = ["office"]
