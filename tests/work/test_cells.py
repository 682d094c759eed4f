"""The matrix of misbehaving handlers is complete: its places and ways are compared with the code of the engine.

A new way to register a function, a new kind of work, a new reason of dead letters and a new exception to judge need a cell.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pytest

from onceward import Onceward, Run, Workflow
from onceward.work import job_task
from onceward.work.attempt_outcome import DeadReason
from onceward.work.job_task import JobTask
from onceward.work.leaks import MEANINGS
from tests.work import misbehaving
from tests.work.cells import CELLS, PLACES, WAYS, reason_of

TAKES_A_FUNCTION = re.compile(r"Callable|Function\b|Hook\b|Decorator\b|BatchFunction")

REGISTERED: dict[str, tuple[str, ...]] = {
    "Onceward.job": ("job", "job with tx", "job in thread", "job in process", "batch"),
    "Onceward.on": ("event inline", "event acked"),
    "Onceward.cron": ("schedule",),
    "Onceward.every": ("schedule",),
    "Onceward.workflow": ("workflow",),
    "Onceward.query": ("live query",),
    "Onceward.on_message": ("on_end hook", "event acked"),  # by `run_end_hook`, and inside the event of a service
    "Onceward.on_message_end": ("on_end hook",),
    "Onceward.on_delivery_end": ("on_end hook",),
    "JobTask.on_end": ("on_end hook",),
    "Workflow.step": ("step", "step with tx", "step in thread"),
    "Workflow.compensate": ("compensation",),
    "Run.each": ("item of a schedule",),
    "Run.each_batch": ("batch of a schedule",),
}
"""The places of each method with which a user hands a function to the engine."""
WITHOUT_A_PLACE = {
    "Onceward.part": "the process runs it once, when it starts, and does not start if it fails",
}
KINDS = {"job": "job", "event": "event acked", "message": "on_end hook", "delivery": "on_end hook"}
"""A place for each kind of work. Messages and deliveries run code of the engine, and hooks of the app at their end."""
NOT_CAUSED_BY_BEHAVIOUR: dict[DeadReason, str] = {
    "payload_invalid": "the arguments do not fit",
    "no_handler": "no function is registered",
    "not_recorded": "the engine could not write the outcome",
    "cancelled": "an operator",
}
EXCEPTIONS = {
    asyncio.CancelledError: "cancelled",
    GeneratorExit: "generator",
    SystemExit: "exit",
    KeyboardInterrupt: "interrupt",
    BaseExceptionGroup: "subtask",
}


def methods_that_take_functions(of: type) -> set[str]:
    """Return the public methods whose parameters or result are functions, by their annotations."""
    found: set[str] = set()
    for name, member in inspect.getmembers(of):
        function: Any = member.fget if isinstance(member, property) else member
        if name.startswith("_") or not inspect.isfunction(function) or function.__module__ == "typing":
            continue
        if any(TAKES_A_FUNCTION.search(str(each)) for each in function.__annotations__.values()):
            found.add(f"{of.__name__}.{name}")
    return found


def test_each_method_that_takes_a_function_has_its_places_in_the_matrix() -> None:
    found = set[str]().union(*(methods_that_take_functions(each) for each in (Onceward, JobTask, Workflow, Run)))
    inside = {"Run.do_batch", "Run.do_item", "Run.count", "JobTask.call"}  # not for users, or takes arguments only
    assert found - inside == REGISTERED.keys() | WITHOUT_A_PLACE.keys()
    assert {place for places in REGISTERED.values() for place in places} == set(PLACES)


def test_each_kind_of_work_has_a_place_in_the_matrix() -> None:
    table = (Path(job_task.__file__).parent / "migrations" / "0001_work.sql").read_text()
    [listed] = re.findall(r"kind text not null check \(kind in \((.*?)\)\)", table)
    assert set(re.findall(r"'(\w+)'", listed)) == KINDS.keys()
    assert set(KINDS.values()) <= set(PLACES)


def test_each_reason_of_dead_letters_has_a_cell() -> None:
    caused = {reason_of(how) for _place, how in CELLS}
    assert caused | NOT_CAUSED_BY_BEHAVIOUR.keys() == set(get_args(DeadReason))
    assert caused & NOT_CAUSED_BY_BEHAVIOUR.keys() == set()


def test_each_exception_outside_exception_has_a_cell_that_raises_it() -> None:
    ours = {each for each in BaseException.__subclasses__() if each.__module__ in ("builtins", "asyncio.exceptions")}
    assert ours - {Exception} == EXCEPTIONS.keys()
    assert MEANINGS.keys() <= EXCEPTIONS.keys()
    for kind, how in EXCEPTIONS.items():
        with pytest.raises(kind):
            asyncio.run(_of(misbehaving.misbehave, how))


async def _of(function: Callable[[str], Any], how: str) -> None:
    await function(how)


def test_each_misbehaviour_that_exists_is_in_a_cell() -> None:
    tree = ast.parse(inspect.getsource(misbehaving))
    names = {
        each.value.value
        for each in ast.walk(tree)
        if isinstance(each, ast.MatchValue) and isinstance(each.value, ast.Constant)
    }
    assert names - set(WAYS) == {"own task and success"}  # of test_leaks.py
    assert set(WAYS) - names == set()
    assert {how for _place, how in CELLS} == set(WAYS)
