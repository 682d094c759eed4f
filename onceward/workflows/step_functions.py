"""Step functions: their parameters, how they are called, and how their results are stored and loaded."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, get_type_hints

from pydantic import TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError

from onceward.db import Cause, Transaction
from onceward.work import Permanent
from onceward.work.leaks import failure_of
from onceward.work.threads import HandlerThreads

MAX_RESULT_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Step:
    """The step that is running. A step function gets it through a parameter annotated `Step`."""

    workflow_id: int
    key: str
    attempt: int
    """1 on the first attempt."""

    @property
    def idempotency_key(self) -> str:
        """`workflow:<id>:<step>`, the same on every attempt. Pass it to external services."""
        return Cause("workflow", self.workflow_id).key(self.key)


class Callee:
    """A step function with its inspected signature."""

    __slots__ = ("_adapter", "_asynchronous", "_names", "_step", "function", "name", "transaction")

    def __init__(self, function: Callable[..., Any]) -> None:
        name = getattr(function, "__name__", "")
        if not name.isidentifier():
            raise TypeError(f"a step must be a named function, not {function!r}: the record contains its name")
        hints = _hints(function, name)
        self.function = function
        self.name: str = name
        self.transaction: str | None = None
        self._step: str | None = None
        self._names: list[str] = []
        self._asynchronous = inspect.iscoroutinefunction(function)
        for parameter in inspect.signature(function).parameters.values():
            annotation = hints.get(parameter.name)
            if isinstance(annotation, type) and issubclass(annotation, Transaction):
                self._check_leads(parameter.name)
                self.transaction = parameter.name
            elif annotation is Step:
                self._check_leads(parameter.name)
                self._step = parameter.name
            elif parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD:
                self._names.append(parameter.name)
        if self.transaction is not None and not self._asynchronous:
            raise TypeError(f"step {name}: a plain function runs in a thread and cannot use `tx`; make it `async def`")
        returned = hints.get("return", Any)
        self._adapter: TypeAdapter[Any] = TypeAdapter(None if returned is type(None) else returned)

    def _check_leads(self, parameter: str) -> None:
        if self._names or self.transaction is not None:
            raise TypeError(
                f"step {self.name}: parameter {parameter!r} must come first: "
                "injected parameters lead, in the order (step: Step, tx: Tx, ...)"
            )

    def arguments(self, positional: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
        """Return all arguments by name. Injected parameters take no position."""
        if len(positional) > len(self._names):
            raise TypeError(f"step {self.name} takes {len(self._names)} arguments, {len(positional)} were given")
        bound = dict(zip(self._names, positional, strict=False))
        if duplicates := bound.keys() & named.keys():
            raise TypeError(f"step {self.name}: argument {min(duplicates)!r} was given twice")
        return bound | named

    async def call(
        self, arguments: dict[str, Any], *, step: Step, tx: Transaction | None, threads: HandlerThreads
    ) -> Any:
        """Call the function with its arguments and injected parameters. Every exception of it is a failure of the
        step."""
        if self.transaction is not None:
            arguments = {**arguments, self.transaction: tx}
        if self._step is not None:
            arguments = {**arguments, self._step: step}
        try:
            if self._asynchronous:
                return await self.function(**arguments)
            return await threads.call(self.function, arguments)
        except Exception:
            raise
        except BaseException as error:
            failure = failure_of(error)
            raise failure from failure.__cause__

    def dump(self, result: Any) -> str:
        """Return the result as JSON, according to the return annotation."""
        try:
            text = self._adapter.dump_json(result).decode()
        except PydanticSerializationError as error:
            raise Permanent(f"step {self.name}: the result cannot be stored as JSON: {error}") from None
        if len(text) > MAX_RESULT_BYTES:
            raise Permanent(
                f"step {self.name}: the result has {len(text)} bytes, more than 1 MiB: store it and return a reference"
            )
        return text

    def load(self, text: str | None) -> Any:
        """Return the result as the annotated type: the same on the first run and on every replay."""
        try:
            return self._adapter.validate_json(text or "null")
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False, include_context=False)[0]
            where = ".".join(str(part) for part in first["loc"]) or "the result"
            raise Permanent(
                f"step {self.name}: the result does not match the return annotation: {where}: {first['msg']}"
            ) from None


def _hints(function: Callable[..., Any], name: str) -> dict[str, Any]:
    try:
        return get_type_hints(function, include_extras=True)
    except NameError as error:
        raise TypeError(
            f"step {name}: annotation {error.name!r} cannot be resolved; import it at module level"
        ) from None
