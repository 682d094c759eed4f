"""The feature `doctor`: one command."""

from __future__ import annotations

from onceward.feature import Feature

FEATURE = Feature(name="doctor", commands=("onceward.doctor.commands:register",))
