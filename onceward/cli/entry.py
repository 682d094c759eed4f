"""The entry point of the `onceward` command."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from onceward.cli.commands import build
from onceward.cli.exits import Exit, code_for
from onceward.cli.loading import APP_VARIABLE, load_app
from onceward.cli.project import use_project
from onceward.cli.rendering import complain
from onceward.feature import Features

WITHOUT_APP = (["dev"], ["new"])
"""Commands that must work while the app cannot be imported."""


def run_command_line(features: Features) -> None:
    """Run one command. An expected failure prints one line and sets the exit code; only a bug shows a traceback.

    If ONCEWARD_APP is set, or the project in the current directory names an app, the command line includes the commands
    of that app.
    """
    try:
        use_project(Path.cwd(), os.environ)
        path = os.environ.get(APP_VARIABLE)
        if path is not None and sys.argv[1:2] not in WITHOUT_APP:
            features = features.plus(load_app(path).features())
        build(features)()
    except KeyboardInterrupt:
        sys.exit(Exit.INTERRUPTED)
    except Exception as error:
        code = code_for(error, features)
        if code is None:
            raise
        complain(str(error))
        sys.exit(code)
