"""The databases of these tests have the tables of the apps too."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from onceward.runtime import FEATURES
from onceward.testing import TestDatabases
from onceward_apps import all as bundled


@pytest.fixture(scope="session")
def databases(server_url: str) -> Iterator[TestDatabases]:
    with TestDatabases(server_url, FEATURES.plus(bundled.app.features()).migrations) as databases:
        yield databases
