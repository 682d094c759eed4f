"""Where the `onceward` command begins and ends."""

from __future__ import annotations

import os
import sys

from onceward.cli.commands import build
from onceward.cli.exits import Exit, code_for
from onceward.cli.loading import APP_VARIABLE, load_app
from onceward.cli.rendering import complain
from onceward.feature import Features


def run_command_line(features: Features) -> None:
    """Run one command. A failure with a name is one line and an exit code, never a traceback.

    With ONCEWARD_APP set, the commands of that app are there too.
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
