"""The feature `process`: the commands that run an app."""

from __future__ import annotations

from onceward.feature import Feature

FEATURE = Feature(name="process", commands=("onceward.process.commands:register",))
