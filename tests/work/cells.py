"""The cells of the matrix of misbehaving handlers: which way to misbehave has a meaning in which place."""

from __future__ import annotations

import itertools

from onceward.work.attempt_outcome import DeadReason

IN_TRANSACTION = (
    "job with tx",
    "batch",
    "event inline",
    "event acked",
    "item of a schedule",
    "batch of a schedule",
    "step with tx",
    "on_end hook",
)
WITHOUT_TRANSACTION = ("job", "schedule", "step", "compensation", "workflow", "live query")
IN_THREAD = ("job in thread", "step in thread")
IN_PROCESS = "job in process"
PLACES = (*IN_TRANSACTION, *WITHOUT_TRANSACTION, *IN_THREAD, IN_PROCESS)

LEAKS = ("cancelled", "generator", "own", "exit", "interrupt")
"""Exceptions that are meant for a task or a process."""
TASK_LEAKS = ("closed", "own task", "subtask")
"""The same through a task of asyncio."""
OF_FUNCTIONS = ("stop",)
OF_TRANSACTIONS = ("ended", "committed", "begun again", "idle")
OF_PROCESSES = ("segfault", "memory")
ENDS_PROCESS = ("block", "swallow", "hang", "exit in task", "_exit")
"""Nothing but the end of the process helps. A handler that runs in a process of its own ends that one only."""
WAYS = (*LEAKS, *TASK_LEAKS, *OF_FUNCTIONS, *OF_TRANSACTIONS, *OF_PROCESSES, *ENDS_PROCESS)


def without_meaning(place: str, how: str) -> str | None:
    """Return why a handler in this place cannot misbehave so, or None if it can."""
    is_plain = place in IN_THREAD or place == IN_PROCESS
    if place == "event inline" and how in ("closed", "own task"):
        return "it ends the request, which then has no answer and stores nothing: the sender tries again"
    if place == "live query" and how == "own task":
        return "it ends the loop that runs queries, which starts again (tests/background)"
    if how in OF_TRANSACTIONS and place not in IN_TRANSACTION:
        return "it has no transaction"
    if how in OF_PROCESSES and place != IN_PROCESS:
        return "as `_exit`: the worker itself ends"
    if how in ("block", "swallow", "exit in task", *TASK_LEAKS) and is_plain:
        return "a plain function has no task and blocks no event loop"
    if how in OF_FUNCTIONS and not is_plain:
        return "Python turns the StopIteration of a coroutine into a RuntimeError"
    if how == "hang" and not is_plain:
        return "a coroutine that does not end blocks the loop, swallows its cancellation, or is stopped by its timeout"
    return None


def reason_of(how: str) -> DeadReason:
    """Return why a job that misbehaves so is a dead letter."""
    match how:
        case "idle":
            return "connection_lost"
        case "hang":
            return "timeout"
        case "ended" | "committed" | "begun again":
            return "permanent"
        case "block" | "swallow" | "exit in task":
            return "worker_lost"
        case _:
            return "max_attempts_exceeded"


def survives(place: str, how: str) -> bool:
    """Return whether the process in which the handler runs goes on."""
    return how not in ENDS_PROCESS or place == IN_PROCESS


CELLS = [(place, how) for place, how in itertools.product(PLACES, WAYS) if without_meaning(place, how) is None]
