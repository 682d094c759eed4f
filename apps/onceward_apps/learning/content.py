"""The content of a cohort: change an item, or remove it. Percentages are derived, so they follow at once."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from onceward import Tx
from onceward_apps.learning.errors import LearningError, NotFound
from onceward_apps.learning.store import curriculum, submissions


async def add_item(tx: Tx, cohort_id: UUID, values: dict[str, Any], *, actor: str) -> Any:
    item = await curriculum.add_item(tx, cohort_id, **values)
    if item is None:
        raise LearningError(
            f"the cohort has a {values['kind']} with the title {values['title']!r}: choose another title"
        )
    await tx.audit("item_added", entity_type="Item", entity_id=item["id"], actor=actor)
    return item


async def change_item(tx: Tx, item_id: UUID, values: dict[str, Any], *, actor: str) -> Any:
    """Change an item. Who has done it has still done it."""
    known = await curriculum.lock_item(tx, item_id)
    if known is None:
        raise NotFound(f"there is no item {item_id}")
    if await curriculum.has_item(tx, known["cohort_id"], values["kind"], values["title"], other_than=item_id):
        raise LearningError(
            f"the cohort has a {values['kind']} with the title {values['title']!r}: choose another title"
        )
    changed = [name for name, value in values.items() if known[name] != value]
    if changed:
        await curriculum.change_item(tx, item_id, values)
        await tx.audit("item_changed", entity_type="Item", entity_id=item_id, changes={"fields": changed}, actor=actor)
    return known


async def remove_item(tx: Tx, item_id: UUID, *, actor: str) -> int:
    """Remove an item, and return how many students had done it. It no longer counts for anybody."""
    known = await curriculum.lock_item(tx, item_id)
    if known is None:
        raise NotFound(f"there is no item {item_id}")
    handed_in = await submissions.handed_in(tx, item_id)
    if handed_in:
        raise LearningError(f"{handed_in} students have handed in work for {known['title']}: make it optional instead")
    await submissions.remove_drafts(tx, item_id)
    done = await curriculum.remove_item(tx, item_id)
    changes = {"title": known["title"], "done_by": done}
    await tx.audit("item_removed", entity_type="Item", entity_id=item_id, changes=changes, actor=actor)
    return done
