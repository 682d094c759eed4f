"""Owners take turns, whatever one of them has waiting."""

from __future__ import annotations

from onceward.work.fair_queue import FairQueue


def filled(*items: str) -> FairQueue[str]:
    queue: FairQueue[str] = FairQueue()
    for item in items:
        queue.append(item[0], item)
    return queue


def test_owners_take_turns_and_what_belongs_to_one_keeps_its_order() -> None:
    queue = filled("a1", "a2", "a3", "b1", "a4", "c1", "b2")
    assert list(queue) == ["a1", "b1", "c1", "a2", "b2", "a3", "a4"]
    order: list[str] = []
    while (first := queue.first()) is not None:
        queue.take(first[0], first)
        order.append(first)
    assert order == ["a1", "b1", "c1", "a2", "b2", "a3", "a4"]
    assert (len(queue), list(queue)) == (0, [])


def test_an_owner_keeps_its_place_if_what_it_had_leaves_and_loses_it_once_served_out_of_turn() -> None:
    queue = filled("a1", "a2", "b1", "b2")
    queue.discard("a", "a1")
    assert queue.first() == "a2"
    queue.take("b", "b1")
    queue.take("a", "a2")
    assert list(queue) == ["b2"]
    assert len(queue) == 1
