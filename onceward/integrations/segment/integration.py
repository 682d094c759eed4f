"""What the integration contributes."""

from __future__ import annotations

from onceward.integration import AccountField, Integration

INTEGRATION = Integration(
    name="segment",
    title="Segment",
    account=(AccountField("write_key", "Write key of the Segment source.", secret=True),),
    settings="onceward.integrations.segment.settings:SegmentSettings",
    client="onceward.integrations.segment.client:Segment",
    simulator="onceward.integrations.segment.simulator:SegmentSimulator",
)
