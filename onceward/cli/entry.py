"""Where the `onceward` command begins and ends."""

from __future__ import annotations

import sys

from onceward.cli.exits import Exit, code_for
from onceward.cli.nouns import build
from onceward.cli.rendering import complain


def main() -> None:
    """Run the command line; a failure that we can name is one line and a code, never a traceback."""
    try:
        build()()
    except KeyboardInterrupt:
        sys.exit(Exit.INTERRUPTED)
    except Exception as error:
        code = code_for(error)
        if code is None:
            raise
        complain(str(error))
        sys.exit(code)
