"""Expressions of endpoints in JMESPath: which events are sent, and what is sent instead of them.

JMESPath reads values and builds new ones; it can neither loop for ever nor reach anything outside. An expression can
still build a value that is exponentially larger than its text, so every step and every value that it builds is charged
to a budget. Only endpoints with expressions import this module.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, cast

from jmespath.exceptions import JMESPathError
from jmespath.parser import Parser
from jmespath.visitor import TreeInterpreter

from onceward import exact_json
from onceward.outbox.errors import ExpressionFailed, Invalid

MOST_CHARACTERS = 2000
BUDGET = 50_000
"""Steps, and parts of values that are built. At the limit an evaluation takes about 50 ms."""
CHARACTERS = 64
"""The number of characters of a text that count as one part."""


class _Interpreter(TreeInterpreter):
    """Evaluates one expression for one event within a budget."""

    def __init__(self) -> None:
        super().__init__()
        self._left = BUDGET

    def visit(self, node: Any, *args: Any, **kwargs: Any) -> Any:
        self._charge(1)
        value = super().visit(node, *args, **kwargs)
        if node["type"] in ("multi_select_list", "multi_select_dict", "function_expression"):
            self._charge_value(value)
        return value

    def _charge(self, parts: int) -> None:
        self._left -= parts
        if self._left < 0:
            raise ExpressionFailed("takes too many steps for this event: make it simpler")

    def _charge_value(self, value: Any) -> None:
        waiting = [value]
        while waiting:
            each = waiting.pop()
            self._charge(1)
            if isinstance(each, str):
                self._charge(len(each) // CHARACTERS)
            elif isinstance(each, dict):
                waiting += cast("dict[str, Any]", each).values()
            elif isinstance(each, list):
                waiting += cast("list[Any]", each)


class Expression:
    """A checked expression."""

    __slots__ = ("_parsed", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self._parsed: Any = Parser().parse(text).parsed

    def evaluate(self, value: Any) -> Any:
        """Return the result for a value. Raises `ExpressionFailed`."""
        try:
            return _Interpreter().visit(self._parsed, value)
        except RecursionError:
            raise ExpressionFailed("is nested too deeply for this event") from None
        except (JMESPathError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise ExpressionFailed(f"does not fit this event ({type(error).__name__})") from None


@lru_cache(maxsize=4096)
def compiled(text: str) -> Expression:
    """Return the expression of this text."""
    return Expression(text)


def check_expression(field: str, text: str) -> None:
    """Raise `Invalid` for a text that is not an expression."""
    if not 1 <= len(text) <= MOST_CHARACTERS:
        raise Invalid(field, f"must have 1 to {MOST_CHARACTERS} characters, not {len(text)}")
    try:
        compiled(text)
    except RecursionError:
        raise Invalid(field, "is nested too deeply") from None
    except (JMESPathError, ValueError, TypeError) as error:
        reason = " ".join(str(error).split())[:300]
        raise Invalid(field, f"is not a JMESPath expression: {reason}") from None


def is_wanted(text: str, body: bytes) -> bool:
    """Return whether the filter is true for the event: anything but false, null and empty values."""
    result = compiled(text).evaluate(_read(body))
    return result is not None and result is not False and result not in ("", [], {})


def transformed(text: str, body: bytes, *, most_bytes: int) -> bytes:
    """Return the body to send instead of the event. Raises `ExpressionFailed` for null and for a result that is too
    large."""
    result = compiled(text).evaluate(_read(body))
    if result is None:
        raise ExpressionFailed("gives null for this event: use `filter` to leave events out")
    try:
        written = exact_json.dumps(result).encode()
    except (TypeError, ValueError):
        raise ExpressionFailed("gives a value that cannot be written as JSON") from None
    if len(written) > most_bytes:
        raise ExpressionFailed(f"gives {len(written)} bytes, at most {most_bytes} are allowed")
    return written


def _read(body: bytes) -> Any:
    try:
        return exact_json.loads(body)
    except RecursionError:
        raise ExpressionFailed("needs a body that is nested less deeply") from None
    except ValueError:
        raise ExpressionFailed("needs a body in JSON") from None
