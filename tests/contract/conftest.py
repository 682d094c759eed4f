"""The same post office as the inbox's own tests. No app is installed: the SQL interface belongs to the engine."""

from tests.inbox.conftest import office

__all__ = ["office"]
