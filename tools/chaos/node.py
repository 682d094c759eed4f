"""One Onceward process of the cluster: `python -m tools.chaos.node web` or `worker`. It ends with its parent process."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import sys
from typing import TYPE_CHECKING

from onceward.process.process import Process
from onceward.runtime import FEATURES
from onceward.settings import load_settings
from onceward.telemetry import configure_logging
from tools.chaos.app import app

if TYPE_CHECKING:
    from onceward.feature import Role

ROLES: dict[str, set[Role]] = {"web": {"web"}, "worker": {"worker", "scheduler"}, "all": {"web", "worker", "scheduler"}}


async def run(kind: str) -> None:
    settings = load_settings()
    configure_logging(level=settings.log_level)
    process = Process(app, settings, FEATURES)
    await process.run(ROLES[kind], ready=lambda: print("ready", flush=True))


def main() -> None:
    if sys.platform == "linux":
        parent = os.getppid()
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
        if os.getppid() != parent:
            sys.exit(1)
    asyncio.run(run(sys.argv[1]))


if __name__ == "__main__":
    main()
