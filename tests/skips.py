"""Fail a run in which a test was skipped for want of a package that could have been installed.

A skip that nobody notices is a test that does not exist. `.ci/run` names the packages in ONCEWARD_TEST_REQUIRE; the
reason of a skip says `apt install <package>`.
"""

from __future__ import annotations

import os
import re

import pytest

PACKAGE = re.compile(r"apt install ([a-z0-9.+-]+)")


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    required = set(os.environ.get("ONCEWARD_TEST_REQUIRE", "").split())
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if not required or reporter is None:
        return
    missing = {
        package
        for report in reporter.stats.get("skipped", [])
        for package in PACKAGE.findall(str(report.longrepr))
        if package in required
    }
    if missing:
        reporter.write_line("")
        reporter.write_line(f"skipped although it can be installed: {', '.join(sorted(missing))}", red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
