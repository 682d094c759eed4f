"""The entry point of the `onceward` command."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from onceward.cli.app_loader import APP_VARIABLE
from onceward.cli.commands import command_line
from onceward.cli.exits import TRACEBACK_VARIABLE, Exit, code_for, explain
from onceward.cli.lean import hide_unneeded, slow_collector
from onceward.cli.project import use_project
from onceward.cli.rendering import complain
from onceward.cli.session import CommandFeatures
from onceward.feature import Features


def run_command_line(features: Features) -> None:
    """Run one command. An expected failure prints one line and sets the exit code; only a bug shows a traceback.

    If ONCEWARD_APP is set, or the project in the current directory names an app, the command line includes the commands
    of that app.
    """
    slow_collector()
    hide_unneeded()
    here = CommandFeatures(features)
    try:
        use_project(Path.cwd(), os.environ)
        here.app_path = os.environ.get(APP_VARIABLE)
        command_line(here)()
    except KeyboardInterrupt:
        sys.exit(Exit.INTERRUPTED)
    except Exception as error:
        code = code_for(error, here.loaded)
        if code is None or os.environ.get(TRACEBACK_VARIABLE):
            raise
        complain(explain(error))
        sys.exit(code)
