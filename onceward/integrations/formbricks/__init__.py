"""Formbricks: survey responses."""

from typing import TYPE_CHECKING

from onceward.lazy import lazy

if TYPE_CHECKING:
    from onceward.integrations.formbricks.simulator import FormbricksSimulator

__all__ = ["FormbricksSimulator"]

__getattr__ = lazy(__name__, __file__)
