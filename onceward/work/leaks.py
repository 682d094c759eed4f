"""Judge exceptions that leave a handler although they are meant for a task or a process.

A handler may await a task that a library cancelled, or call code that ends with `sys.exit()`. Such an exception would
end the slot, the request or the whole process in silence. It is a failure of the one piece of work, like any other
exception.
"""

from __future__ import annotations

import asyncio
import signal

from onceward.errors import OncewardError, Signal

MEANINGS: dict[type[BaseException], str] = {
    asyncio.CancelledError: "something that it awaited was cancelled, and nobody cancelled the handler",
    GeneratorExit: "a generator or coroutine was closed while it ran",
    SystemExit: "a handler cannot end the process: return, or raise an exception of your own",
    KeyboardInterrupt: "a handler cannot end the process: return, or raise an exception of your own",
}


class Leaked(OncewardError):
    """The handler raised an exception that is not an `Exception`: CancelledError, SystemExit or another
    BaseException."""


def failure_of(error: BaseException) -> Exception:
    """Return what the exception of a handler means for its work. Raise it again if it is meant for the caller.

    The caller is meant if its own task is being cancelled, or if an operator pressed Ctrl-C. Raise the result `from
    failure.__cause__`, not from the error: an exception group is returned as it is and must not become its own cause.
    """
    if isinstance(error, Exception):
        return error
    if isinstance(error, Signal):
        raise error
    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise error
    if isinstance(error, KeyboardInterrupt) and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        raise error  # Python raises it wherever the main thread is; the process and `asyncio.run` replace that handler
    if isinstance(error, GeneratorExit) and _has_no_task():
        raise error  # the coroutine is being closed because its event loop has ended
    return leaked(error)


def leaked(error: BaseException) -> Leaked:
    """Return the failure of work whose handler raised such an exception, with the exception's own stack."""
    meaning = next(
        (text for kind, text in MEANINGS.items() if isinstance(error, kind)),
        "it is not an `Exception`, which every error of a program must be",
    )
    name = type(error).__name__
    code = f"({error.code!r})" if isinstance(error, SystemExit) else ""
    failure = Leaked(f"the handler raised {name}{code}: {meaning}").with_traceback(error.__traceback__)
    failure.__cause__ = error
    return failure


def _has_no_task() -> bool:
    try:
        return asyncio.current_task() is None
    except RuntimeError:
        return True
