"""The entry point of the `onceward` command."""

from __future__ import annotations

import os
import sys

from onceward.cli.commands import build
from onceward.cli.exits import Exit, code_for
from onceward.cli.loading import APP_VARIABLE, load_app
from onceward.cli.rendering import complain
from onceward.feature import Features


def run_command_line(features: Features) -> None:
    """Run one command. An expected failure prints one line and sets the exit code; only a bug shows a traceback.

    If ONCEWARD_APP is set, the command line includes the commands of that app.
    """
    try:
        if path := os.environ.get(APP_VARIABLE):
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
