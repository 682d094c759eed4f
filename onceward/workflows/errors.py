"""What can go wrong in a workflow, by name.

WorkflowError              raised into the workflow's code, which may catch it; uncaught, the workflow fails and compensates
├── StepFailed             a step used up its attempts, or said that trying again cannot help
│   └── ChildFailed        a child workflow ended in another way than success
├── WaitTimedOut           nobody sent the signal in time
└── TooManySteps           the history is full: `continue_as_new`
Permanent                  (of onceward.work) the workflow is a dead letter until an operator has looked
├── WorkflowDiverged       the code asks for other steps than were recorded
└── CompensationFailed     a compensation used up its attempts
WorkflowState(ValueError)  an operator asks for something that the workflow's state does not allow
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from onceward.work import Permanent, Snooze


class WorkflowError(Exception):
    """The base of what a workflow's own code may want to catch."""


class StepFailed(WorkflowError):
    """`type` and `message` are those of the step's error: the same on the first run and on every replay."""

    def __init__(self, key: str, error: dict[str, Any], attempts: int = 1) -> None:
        self.key = key
        self.type = str(error.get("type", "Exception"))
        self.message = str(error.get("message", ""))
        self.error = error
        self.attempts = attempts
        super().__init__(f"step {key} failed after {attempts} attempts: {self.type}: {self.message}")


class ChildFailed(StepFailed):
    """The child's error, or how it ended."""


class WaitTimedOut(WorkflowError):
    """The deadline of a wait has passed."""


class TooManySteps(WorkflowError):
    """A history is bounded: go on in a new one with `wf.continue_as_new(...)`."""


class WorkflowDiverged(Permanent):
    """The recorded sequence of steps is not what the code asks for now."""


class CompensationFailed(Permanent):
    """Something that was done could not be undone. Retrying the workflow tries it again."""


class WorkflowState(ValueError):
    """Not in this state; the message says what can be done instead."""


class HistoryChanged(Snooze):
    """Inside a run: what was loaded is no longer what is recorded. The run is put back, and looks again."""


class Interrupted(BaseException):
    """Inside a run: it cannot go on, and the workflow's code has no part in that and must not catch it.

    `reason` is what the executor judges: the lease was lost, the outcome of a commit is unknown, the connection broke.
    The history decides what is left to do.
    """

    def __init__(self, reason: Exception) -> None:
        super().__init__(str(reason))
        self.reason = reason


class Parked(BaseException):
    """Inside a run: nothing more can be done before `until` (None: ever), or before one of the waiting steps is answered."""

    def __init__(self, until: datetime | None, waiting: tuple[int, ...] = ()) -> None:
        super().__init__("parked")
        self.until = until
        self.waiting = waiting


class Halted(BaseException):
    """Inside a run that only compensates: the code has come to the end of what was recorded."""


class Continued(BaseException):
    """Inside a run: the workflow goes on under a new id with these arguments."""

    def __init__(self, arguments: dict[str, Any]) -> None:
        super().__init__("continued")
        self.arguments = arguments
