"""A process that does nothing until it is ended: `python -m tests.idle [--once]`."""

from __future__ import annotations

import signal
import sys

if __name__ == "__main__":
    print(sys.argv[1:], flush=True)
    while "--once" not in sys.argv:
        signal.pause()
