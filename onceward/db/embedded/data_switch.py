"""Replace the data of the embedded server by upgraded data: two renames, and a note that lets the next start finish
them.

Without the note, a start between the two renames would find no data and create an empty database.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import structlog

from onceward.db.journal import FileJournal, UnfinishedCommand, sync_directory

log = structlog.get_logger(__name__)

NOTE = "pg.upgrade"
COPYING = "the old data are being copied"
SWITCHING = "the upgraded data replace the old data"


class Switch:
    """One upgrade: the data in use, the upgraded copy, and the name under which the old data are kept."""

    def __init__(self, data_dir: Path, cluster: Path, fresh: Path, kept: Path) -> None:
        self._journal = FileJournal(data_dir / NOTE)
        self._cluster, self._fresh, self._kept = cluster, fresh, kept

    def begin(self) -> None:
        """Note that the copy is being made. Until `switch`, the old data stay in use."""
        self._journal.write(
            UnfinishedCommand(
                command="db upgrade",
                step=COPYING,
                remedy="run it again",
                details={"cluster": str(self._cluster), "fresh": str(self._fresh), "kept": str(self._kept)},
            )
        )

    def abandon(self) -> None:
        """Remove the copy. The old data are unchanged."""
        shutil.rmtree(self._fresh, ignore_errors=True)
        self._journal.remove()

    def switch(self) -> None:
        """Put the upgraded data in the place of the old data."""
        note = self._journal.read()
        assert note is not None
        self._journal.write(replace(note, step=SWITCHING))
        self._rename()
        self._journal.remove()

    def _rename(self) -> None:
        """Do what is left of the two renames."""
        if self._fresh.exists():
            if self._cluster.exists():
                self._cluster.rename(self._kept)
            self._fresh.rename(self._cluster)
        sync_directory(self._cluster.parent)

    @classmethod
    def resume(cls, data_dir: Path) -> None:
        """Finish or undo an upgrade that was interrupted, if there is one. The caller holds the locks of the data."""
        note = FileJournal(data_dir / NOTE).read()
        if note is None:
            return
        switch = cls(data_dir, *(Path(note.details[name]) for name in ("cluster", "fresh", "kept")))
        if note.step == SWITCHING:
            switch._rename()
            switch._journal.remove()
            log.warning("upgrade.finished", reason="the command was interrupted", old_data=note.details["kept"])
        else:
            switch.abandon()
            log.warning("upgrade.undone", reason="the command was interrupted; the old data are unchanged")
