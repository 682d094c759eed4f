"""The errors of the clinic. Routes take the HTTP status from `status`.

ClinicError
├── NotFound        the patient, appointment or message does not exist in this clinic
├── NotAllowed      the state of the appointment does not allow the action
├── NotRefundable   there is no payment to refund, or less is left than requested
└── BadInput        a field has a value that the clinic cannot use
"""

from __future__ import annotations

from typing import ClassVar

from onceward import OncewardError


class ClinicError(OncewardError):
    """Base of all errors of the clinic. The message names the object and the reason, and says what to do."""

    status: ClassVar[int] = 409


class NotFound(ClinicError):
    status = 404


class NotAllowed(ClinicError):
    status = 409


class NotRefundable(ClinicError):
    status = 409


class BadInput(ClinicError):
    status = 422
