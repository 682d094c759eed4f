"""The test runner of Django (`TEST_RUNNER = "runner.Runner"`): the test database gets Onceward's tables as well."""

import os
import subprocess
import sys
from typing import Any
from urllib.parse import quote, urlencode

from django.db import connection
from django.test.runner import DiscoverRunner


class Runner(DiscoverRunner):
    def setup_databases(self, **options: Any) -> Any:
        databases = super().setup_databases(**options)
        given = connection.settings_dict
        login = urlencode(
            {"user": given["USER"], "password": given["PASSWORD"], "host": given["HOST"], "port": given["PORT"]}
        )
        url = f"postgresql:///{quote(given['NAME'])}?{login}"
        subprocess.run(
            [sys.executable, "-m", "onceward", "migrate", "shop:app"],
            env={**os.environ, "ONCEWARD_DATABASE_URL": url},
            check=True,
            stdout=subprocess.DEVNULL,
        )
        return databases
