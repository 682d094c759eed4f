"""The list of the engine's features. To add one, create a folder with a `feature.py` and add a line here."""

from __future__ import annotations

from onceward.capacity.feature import FEATURE as capacity
from onceward.db.feature import FEATURE as db
from onceward.desk.feature import FEATURE as desk
from onceward.doctor.feature import FEATURE as doctor
from onceward.feature import Features
from onceward.inbox.feature import FEATURE as inbox
from onceward.ledger.feature import FEATURE as ledger
from onceward.limits.feature import FEATURE as limits
from onceward.live.feature import FEATURE as live
from onceward.look.feature import FEATURE as look
from onceward.mcp.feature import FEATURE as mcp
from onceward.messages.feature import FEATURE as messages
from onceward.outbox.feature import FEATURE as outbox
from onceward.payments.feature import FEATURE as payments
from onceward.process.feature import FEATURE as process
from onceward.rehearsal.feature import FEATURE as rehearsal
from onceward.schedules.feature import FEATURE as schedules
from onceward.services.feature import FEATURE as services
from onceward.trust.feature import FEATURE as trust
from onceward.web.feature import FEATURE as web
from onceward.work.feature import FEATURE as work
from onceward.workflows.feature import FEATURE as workflows

FEATURES = Features.of(
    (
        process,
        db,
        doctor,
        services,
        trust,
        work,
        limits,
        inbox,
        schedules,
        messages,
        outbox,
        live,
        capacity,
        ledger,
        payments,
        workflows,
        rehearsal,
        web,
        desk,
        look,
        mcp,
    )
)
