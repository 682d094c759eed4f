"""The version log: which advance a run missed, and which version a client has reached."""

from __future__ import annotations

from onceward.live.feed import Change
from onceward.live.query import Dependency
from onceward.live.snapshot import Snapshot, Version
from onceward.live.version_log import VersionLog

ORDERS: frozenset[Change] = frozenset({(1, None, None)})
SEATS: frozenset[Change] = frozenset({(2, None, None)})
ON_ORDERS = (Dependency(1, ()),)
ON_SEATS = (Dependency(2, ()),)


def version(xmax: int) -> Version:
    return Version(1, 7, Snapshot(xmax, xmax, frozenset()))


def started(*changes: frozenset[Change] | None, advances_kept: int = 4096) -> VersionLog:
    """Return a log that starts at version 10 and reads to version 11, 12, ..., with these changes."""
    log = VersionLog(advances_kept=advances_kept)
    log.start_at(version(10))
    for n, each in enumerate(changes):
        log.read_to(version(11 + n), each)
    return log


def test_a_read_without_changes_moves_the_version_without_an_advance() -> None:
    log = started(frozenset(), ORDERS, frozenset())
    assert (log.number, log.version, log.version_text) == (1, version(13), str(version(13)))
    assert log.reached(1)[0] == version(11), "the advance started from the read before it"


def test_a_run_missed_the_first_later_advance_that_matches() -> None:
    log = started(ORDERS, SEATS, SEATS, ORDERS)
    assert log.first_match(ON_ORDERS, after=0) == 1
    assert log.first_match(ON_ORDERS, after=1) == 4
    assert log.first_match(ON_SEATS, after=1) == 2
    assert log.first_match(ON_SEATS, after=3) is None
    assert log.first_match(ON_ORDERS, after=4) is None
    assert log.first_match((), after=0) is None


def test_a_reset_matches_every_query() -> None:
    log = started(SEATS, None, SEATS)
    assert log.number == 3
    assert log.first_match(ON_ORDERS, after=0) == 2
    assert log.first_match((), after=1) == 2


def test_a_run_older_than_the_log_counts_as_missed_from_its_start() -> None:
    log = started(ORDERS, SEATS, SEATS, SEATS, advances_kept=2)
    assert log.first_match(ON_ORDERS, after=0) == 1, "advance 1 is not kept, so nobody knows"
    assert log.first_match(ON_ORDERS, after=1) == 2, "advance 2 is not kept either"
    assert log.first_match(ON_ORDERS, after=2) is None


def test_a_run_across_a_new_position_counts_as_missed() -> None:
    log = started(ORDERS)
    log.read_to(version(12), SEATS)
    log.start_at(version(20))
    assert log.first_match(ON_ORDERS, after=1) == 2, "the log was cleared during the run"
    assert log.first_match(ON_ORDERS, after=2) is None, "a run that started at the latest advance missed nothing"


def test_a_client_reached_the_version_before_the_first_advance_that_its_result_lacks() -> None:
    log = started(ORDERS, SEATS, ORDERS)
    assert log.reached(None) == (version(13), str(version(13)))
    assert log.reached(4) == (version(13), str(version(13))), "advance 4 does not exist yet"
    assert log.reached(3) == (version(12), str(version(12)))
    assert log.reached(1) == (version(10), str(version(10)))


def test_the_version_of_a_client_behind_the_log_is_unknown() -> None:
    log = started(ORDERS, SEATS, ORDERS, advances_kept=2)
    assert log.reached(2)[0] == version(11)
    assert log.reached(1) == (None, ""), "version 11 would claim that the client has seen advance 1"
    log.start_at(version(20))
    assert log.reached(3) == (None, "")
    assert log.reached(4)[0] == version(20)


def test_before_the_first_read_there_is_no_version() -> None:
    log = VersionLog()
    assert log.reached(None) == (None, "")
    log.read_to(version(5), ORDERS)
    assert log.reached(1)[0] == version(5)
