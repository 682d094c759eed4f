"""The errors of workflows.

WorkflowError              raised into the workflow's code, which may catch it; uncaught, the workflow fails and
compensates ├── StepFailed             a step used up its attempts, or raised `Permanent` │   └── ChildFailed        a
child workflow did not succeed ├── WaitTimedOut           no signal arrived before the timeout └── TooManySteps
the history has `max_steps` steps: use `continue_as_new` Permanent                  (of onceward.work) the workflow is a
dead letter until an operator retries, forks or cancels it ├── WorkflowDiverged       the code asks for steps other than
the recorded ones └── CompensationFailed     a compensation used up its attempts WorkflowState(ValueError)  the state of
the workflow does not allow an operator's request
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from onceward.errors import OncewardError, Signal
from onceward.work import Permanent, Snooze


class WorkflowError(OncewardError):
    """The base of the errors that a workflow's code may catch."""


class StepFailed(WorkflowError):
    """A step failed. `type` and `message` describe its error, the same on the first run and on every replay."""

    def __init__(self, key: str, error: dict[str, Any], attempts: int = 1) -> None:
        self.key = key
        self.type = str(error.get("type", "Exception"))
        self.message = str(error.get("message", ""))
        self.error = error
        self.attempts = attempts
        super().__init__(f"step {key} failed after {attempts} attempts: {self.type}: {self.message}")


class ChildFailed(StepFailed):
    """A child workflow failed or was cancelled."""


class WaitTimedOut(WorkflowError):
    """No signal arrived before the timeout of a wait."""


class TooManySteps(WorkflowError):
    """The history has `max_steps` steps: continue in a new one with `wf.continue_as_new(...)`."""


class WorkflowDiverged(Permanent):
    """The code asks for steps other than the recorded ones."""


class CompensationFailed(Permanent):
    """A compensation used up its attempts. Retrying the workflow runs the compensation again."""


class WorkflowState(OncewardError, ValueError):
    """The state of the workflow does not allow this. The message says what is possible instead."""


class HistoryChanged(Snooze):
    """Internal: the loaded history is out of date. The run is rescheduled and loads the history again."""


class Interrupted(Signal):
    """Internal: the run cannot continue, for a reason outside the workflow's code, which must not catch it.

    The executor classifies `reason`: a lost lease, an unknown commit outcome, a lost connection. The next run
    continues from the history.
    """

    def __init__(self, reason: Exception) -> None:
        super().__init__(str(reason))
        self.reason = reason


class Parked(Signal):
    """Internal: the run stops until the time `until` (None: no limit), or until a step in `waiting` is answered."""

    def __init__(self, until: datetime | None, waiting: tuple[int, ...] = ()) -> None:
        super().__init__("parked")
        self.until = until
        self.waiting = waiting


class Halted(Signal):
    """Internal: a replay for compensation has reached the end of the recorded steps."""


class Continued(Signal):
    """Internal: the workflow continues under a new id with these arguments."""

    def __init__(self, arguments: dict[str, Any]) -> None:
        super().__init__("continued")
        self.arguments = arguments
