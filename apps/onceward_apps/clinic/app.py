"""The app object of the clinic, with its settings and the event types that it publishes."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from uuid import UUID

from pydantic import BaseModel, Field, field_validator

from onceward import FeatureSettings, Onceward
from onceward.payments import Books

HERE = Path(__file__).parent
ACCOUNT = "clinic"
"""The name of the payment account. A clinic without an account of this name uses the installation's."""
APPOINTMENT = "appointment"
"""What a payment is for: its subject is an appointment."""
STRIPE = "clinic-stripe"


class ClinicSettings(FeatureSettings):
    """Settings with the prefix `ONCEWARD_CLINIC_`."""

    reminder_hours: str = Field(
        default="24,1", description="Comma-separated hours before an appointment at which the patient gets a reminder."
    )
    acknowledge_hours: float = Field(
        default=24, gt=0, description="Hours in which a contact gets at most one automatic acknowledgement."
    )
    refund_hours: float = Field(
        default=24,
        ge=0,
        description="Hours before the start until which a patient who cancels gets the full price back.",
    )
    late_refund_percent: int = Field(
        default=0, ge=0, le=100, description="Percentage of the price that a patient who cancels later gets back."
    )
    answer_hours: float = Field(
        default=48,
        gt=0,
        le=720,
        description="Hours after a message to a patient in which YES and NO count as the answer to it.",
    )
    room_minutes: int = Field(
        default=60, ge=0, description="Minutes before the start and after the end in which a video room is open."
    )
    recording: bool = Field(default=False, description="Allow recordings in the video rooms of new appointments.")
    reconcile_after_minutes: float = Field(
        default=30, gt=0, description="Minutes without a delivery report after which Twilio is asked about a message."
    )

    @field_validator("reminder_hours")
    @classmethod
    def _is_list(cls, value: str) -> str:
        hours = [part.strip() for part in value.split(",") if part.strip()]
        if not all(part.isdigit() and 1 <= int(part) <= 720 for part in hours) or len(hours) > 5:
            raise ValueError(f"must be up to five whole hours between 1 and 720, separated by commas, not {value!r}")
        return value

    @property
    def reminders(self) -> tuple[int, ...]:
        """Return the hours before the start at which reminders are due, the longest first."""
        return tuple(sorted({int(part) for part in self.reminder_hours.split(",") if part.strip()}, reverse=True))

    @property
    def acknowledge_every(self) -> timedelta:
        return timedelta(hours=self.acknowledge_hours)


app = Onceward(
    "clinic",
    migrations=HERE / "migrations",
    functions=HERE / "functions",
    settings=ClinicSettings,
    commands=("onceward_apps.clinic.commands:register",),
    pages="onceward_apps.clinic.desk_actions:PAGES",
    checks="onceward_apps.clinic.checks:CHECKS",
    erasers="onceward_apps.clinic.erasers:ERASERS",
    metrics="onceward_apps.clinic.metrics",
    growth="onceward_apps.clinic.growth:GROWTH",
    alerts=HERE / "alerts.yml",
)
app.templates(HERE / "templates")
app.payments.books(Books(revenue="appointment_fees"))
app.payments.account(ACCOUNT, service="stripe", source=STRIPE)


class AppointmentChanged(BaseModel):
    """`appointment.*`: an appointment was created, moved, confirmed, cancelled or held."""

    appointment_id: UUID
    organization_id: UUID
    status: str
    payment_status: str
    starts_at: datetime
    trigger: str


SAMPLE = {
    "appointment_id": "5b0a9a3e-7f0e-4d57-9c8a-0d8f5a1d2c3b",
    "organization_id": "0d9f6a0e-64a5-4d0b-9d4c-3a1f3c9b7e21",
    "status": "confirmed",
    "payment_status": "paid",
    "starts_at": "2031-06-21T09:00:00Z",
    "trigger": "paid",
}
app.event_type("appointment.created", AppointmentChanged, sample=SAMPLE, description="An appointment was created.")
app.event_type(
    "appointment.updated",
    AppointmentChanged,
    sample=SAMPLE,
    description="The status or time of an appointment changed.",
)
app.event_type("appointment.paid", AppointmentChanged, sample=SAMPLE, description="An appointment was paid in full.")


def settings() -> ClinicSettings:
    return app.settings(ClinicSettings)
