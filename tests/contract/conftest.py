"""The same post office as the inbox's own tests, on a database with the tables of the clinic."""

from collections.abc import Iterator

import pytest

from onceward.runtime import FEATURES
from onceward.testing import TestDatabases
from onceward_apps.clinic import app as clinic
from tests.inbox.conftest import office

__all__ = ["databases", "office"]


@pytest.fixture(scope="session")
def databases(server_url: str) -> Iterator[TestDatabases]:
    """Creates databases with the tables of the engine and of the clinic, whose `webhook_side_effects` the test uses."""
    with TestDatabases(server_url, FEATURES.plus(clinic.features()).migrations) as databases:
        yield databases
