"""`onceward clinic`: an operator books, moves, confirms and cancels at the command line."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from onceward.cli.commands import build
from onceward.runtime import FEATURES
from onceward_apps.clinic import app as clinic


def test_an_appointment_is_booked_moved_and_cancelled(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONCEWARD_DATABASE_URL", database_url)
    cli, runner = build(FEATURES.plus(clinic.features())), CliRunner()

    def onceward(*words: str, code: int = 0) -> str:
        result = runner.invoke(cli, list(words))
        assert result.exit_code == code, result.output
        return result.output

    def run(name: str, *words: str, code: int = 0) -> str:
        return onceward("clinic", name, *words, "-o", "harbour", code=code)

    onceward("organizations", "add", "harbour")
    patient = run("save-patient", "Ann Tan", "--whatsapp", "+65 9123 4567").split()[1]
    run("save-patient", "Ann Lim", "--id", patient, "--email", "ann@example.org")
    [row] = json.loads(run("patients", "--search", "Lim", "--json"))
    assert (row["id"], row["name"], row["whatsapp"]) == (patient, "Ann Lim", "+6591234567")

    run("book", patient, "--starts", "2031-06-21T09:00:00", code=1)  # without a time zone
    booked = run("book", patient, "--starts", "2031-06-21T09:00:00Z", "--price", "8000", "--currency", "sgd")
    appointment = booked.split()[1]
    assert booked.endswith("is scheduled; its payment is unpaid\n")
    assert "is confirmed" in run("confirm", appointment)
    assert "2031-06-22T09:00:00+00:00" in run("reschedule", appointment, "--starts", "2031-06-22T09:00:00Z")
    assert "payment link 1" in run("payment-link", appointment)
    assert f"clinic-{appointment.replace('-', '')}" in run("room", appointment)
    assert "is cancelled" in run("cancel", appointment, "--reason", "ill")
    run("payment-link", appointment, code=1)
    [row] = json.loads(run("day", "--on", "2031-06-22", "--json"))
    assert (row["patient_name"], row["status"]) == ("Ann Lim", "cancelled")
