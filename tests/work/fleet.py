"""A process of the app `tests.work.misbehaving` that is started again after its end, as a supervisor does: `python -m tests.work.fleet`.

Each process is a fork, so that Onceward is imported once. The exit code of each is a line of the output `exit <code>`; the next
process starts when a line arrives on the input.
"""

from __future__ import annotations

import os
import signal
import sys

from onceward.__main__ import main
from onceward.cli.lean import import_fastapi
from onceward.process import process
from onceward.web import server
from onceward.work import worker
from tests.child import die_with_parent
from tests.work import misbehaving

IMPORTED = (process, server, worker, misbehaving)


def run() -> None:
    import_fastapi()
    while True:
        child = os.fork()
        if child == 0:
            die_with_parent()
            sys.argv = ["onceward", *sys.argv[1:]]
            try:
                main()
            except SystemExit as end:
                sys.stdout.flush()
                os._exit(end.code if isinstance(end.code, int) else int(end.code is not None))
        _, status = os.waitpid(child, 0)
        print(f"exit {os.waitstatus_to_exitcode(status)}", flush=True)
        if not sys.stdin.readline():
            return


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    run()
