"""The schedule of faults depends on the seed alone, so a failing seed can be run again."""

from __future__ import annotations

from tools.chaos.faults import NODE_CLOCK_FAULTS, POOL_FAULTS, SERVER_CLOCK_FAULTS, SERVER_FAULTS, plan
from tools.chaos.history import History, Request
from tools.chaos.injector import Injected, Injector
from tools.chaos.report import longest_gap_s


def test_a_seed_gives_the_same_schedule_and_another_seed_another() -> None:
    schedule = plan(7, duration_s=600, nodes=5, cluster=True)
    assert schedule == plan(7, duration_s=600, nodes=5, cluster=True)
    assert schedule != plan(8, duration_s=600, nodes=5, cluster=True)
    assert [fault.at_s for fault in schedule] == sorted(fault.at_s for fault in schedule)


def test_a_long_schedule_has_every_fault_of_the_servers() -> None:
    kinds = {fault.kind for fault in plan(1, duration_s=600, nodes=5, cluster=True)}
    assert kinds >= set(SERVER_FAULTS)


def test_a_schedule_without_a_cluster_has_no_fault_of_one() -> None:
    kinds = {fault.kind for fault in plan(1, duration_s=600, nodes=2, cluster=False)}
    assert not kinds & set(SERVER_FAULTS)


def test_every_kind_of_fault_can_be_injected() -> None:
    for fault in (*plan(1, duration_s=900, nodes=5, cluster=True), *plan(1, duration_s=100, nodes=2, cluster=False)):
        assert hasattr(Injector, f"_{fault.kind}")


def test_the_unavailability_is_the_longest_time_without_an_acknowledgement_after_the_fault() -> None:
    answers = [(1.0, 200), (2.0, 200), (3.0, 503), (9.0, 200), (9.5, 200), (30.0, 200)]
    history = History(requests=[Request(0, "ack", status, at, at) for at, status in answers])
    assert longest_gap_s(history, Injected("kill_primary", 2.5, 5.0), until_s=10.0) == 7.0


def test_clocks_jump_forward_and_back_by_seconds_to_hours() -> None:
    faults = [fault for seed in range(20) for fault in plan(seed, duration_s=300, nodes=5, cluster=True)]
    assert {fault.kind for fault in faults} >= {*NODE_CLOCK_FAULTS, *SERVER_CLOCK_FAULTS, *POOL_FAULTS}
    jumps = [fault.by_s for fault in faults if fault.kind.startswith("jump")]
    assert min(jumps) < -3600 < 0 < 3600 < max(jumps)
    assert 3 < min(map(abs, jumps)) < 10


def test_moved_clocks_leave_the_other_faults_of_a_seed_as_they_are() -> None:
    moved = (*NODE_CLOCK_FAULTS, *SERVER_CLOCK_FAULTS, *POOL_FAULTS)
    everything = plan(7, duration_s=120, nodes=5, cluster=True)
    assert [(f"{fault.at_s:.1f}", fault.kind) for fault in everything if fault.kind not in moved][:3] == [
        ("6.6", "restart_node"),
        ("11.2", "kill_postgres"),
        ("18.5", "cut_links"),
    ]
