"""Segment: batches of tracking calls."""

from typing import TYPE_CHECKING

from onceward.lazy import lazy

if TYPE_CHECKING:
    from onceward.integrations.segment.client import Segment, SegmentCall
    from onceward.integrations.segment.simulator import SegmentSimulator

__all__ = ["Segment", "SegmentCall", "SegmentSimulator"]

__getattr__ = lazy(__name__, __file__)
