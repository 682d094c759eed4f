"""Workflows: functions whose finished steps are recorded. A recorded step never runs again, whichever process crashes.

Internal: import workflows from `onceward`.
"""
# pyright: reportUnusedImport=false

from typing import TYPE_CHECKING

from onceward.lazy import lazy

if TYPE_CHECKING:  # names that are not in `__all__` are internal
    from onceward.workflows.errors import (
        ChildFailed,
        CompensationFailed,
        StepFailed,
        TooManySteps,
        WaitTimedOut,
        WorkflowDiverged,
        WorkflowError,
        WorkflowState,
    )
    from onceward.workflows.history import WorkflowKind
    from onceward.workflows.registration import register
    from onceward.workflows.step import StepCall
    from onceward.workflows.step_functions import Step
    from onceward.workflows.task import QUEUE, ConfiguredWorkflow, WorkflowTask
    from onceward.workflows.workflow import ChildCall, Workflow
    from onceward.workflows.workflow_start import Started, StartRequest, announce, insert, signal, start, start_request

__all__ = [
    "StepFailed",
]

__getattr__ = lazy(__name__, __file__)
