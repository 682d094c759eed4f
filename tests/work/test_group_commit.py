"""Group commit by itself: nothing submitted is forgotten, and commits are shared where that is worth it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from onceward.work import GroupCommit
from onceward.work.group_commit import OverShare


class Told:
    """A waiter that acts at the moment of its commit."""

    def __init__(self, call: Callable[[int], None]) -> None:
        self._call = call

    def done(self) -> bool:
        return False

    def set_result(self, result: int, /) -> None:
        self._call(result)

    def set_exception(self, exception: Exception, /) -> None:
        raise AssertionError(exception)


class Disk:
    """Commits that last until the test lets them end."""

    def __init__(self) -> None:
        self.begun: list[list[int]] = []
        self._ends: list[asyncio.Event] = []

    async def flush(self, items: Sequence[int]) -> Sequence[int]:
        end = asyncio.Event()
        self.begun.append(list(items))
        self._ends.append(end)
        await end.wait()
        return items

    def end(self, number: int) -> None:
        self._ends[number].set()


async def settle() -> None:
    """Let everything happen that can happen by itself."""
    for _ in range(10):
        await asyncio.sleep(0)


async def at_once(items: Sequence[int]) -> Sequence[int]:
    return items


async def test_what_is_submitted_in_the_moment_a_commit_ends_is_committed_too() -> None:
    commits: GroupCommit[int, int] = GroupCommit(at_once, commits_at_once=1)
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[int] = loop.create_future()
    commits.submit_to(1, Told(lambda _: void(loop.call_soon(commits.submit_to, 2, ended))))
    async with asyncio.timeout(5):
        assert await ended == 2


def void(_: object) -> None: ...


async def test_a_straggler_waits_for_the_large_commit_beside_it() -> None:
    disk = Disk()
    commits: GroupCommit[int, int] = GroupCommit(disk.flush, commits_at_once=2)
    large = [asyncio.create_task(commits.submit(n)) for n in range(10)]
    await settle()
    straggler = asyncio.create_task(commits.submit(100))
    await settle()
    assert disk.begun == [list(range(10))]
    disk.end(0)
    await settle()
    assert disk.begun[1:] == [[100]]
    disk.end(1)
    assert await asyncio.gather(*large, straggler) == [*range(10), 100]


async def test_a_second_commit_runs_beside_the_first_when_enough_has_come_together() -> None:
    disk = Disk()
    commits: GroupCommit[int, int] = GroupCommit(disk.flush, commits_at_once=2)
    first = [asyncio.create_task(commits.submit(n)) for n in range(10)]
    await settle()
    second = [asyncio.create_task(commits.submit(n)) for n in range(10, 15)]
    await settle()
    assert disk.begun == [list(range(10)), list(range(10, 15))]
    disk.end(1)
    assert await asyncio.gather(*second) == list(range(10, 15))
    disk.end(0)
    assert await asyncio.gather(*first) == list(range(10))


async def test_one_at_a_time_nobody_waits_for_another() -> None:
    disk = Disk()
    commits: GroupCommit[int, int] = GroupCommit(disk.flush, commits_at_once=2)
    one = asyncio.create_task(commits.submit(1))
    await settle()
    two = asyncio.create_task(commits.submit(2))
    await settle()
    assert disk.begun == [[1], [2]]
    disk.end(0)
    disk.end(1)
    assert await asyncio.gather(one, two) == [1, 2]


async def test_two_commits_share_evenly_what_there_is_to_do() -> None:
    disk = Disk()
    commits: GroupCommit[int, int] = GroupCommit(disk.flush, commits_at_once=2)
    many = [asyncio.create_task(commits.submit(n)) for n in range(60)]
    await settle()
    assert [len(batch) for batch in disk.begun] == [30, 30]
    more = [asyncio.create_task(commits.submit(n)) for n in range(60, 100)]
    await settle()
    disk.end(0)
    await settle()
    assert [len(batch) for batch in disk.begun] == [30, 30, 35], "half of the 70 that are not yet committed"
    disk.end(1)
    await settle()
    assert [len(batch) for batch in disk.begun] == [30, 30, 35], "five do not justify a batch of more than 35"
    disk.end(2)
    await settle()
    disk.end(3)
    assert await asyncio.gather(*many, *more) == list(range(100))


async def test_lines_take_turns_when_more_waits_than_a_commit_takes() -> None:
    disk = Disk()
    commits: GroupCommit[int, int] = GroupCommit(disk.flush, commits_at_once=1, most_at_once=4)
    first = asyncio.create_task(commits.submit(0))
    await settle()
    flood = [asyncio.create_task(commits.submit(n, ("a", n % 2))) for n in range(1, 11)]
    other = asyncio.create_task(commits.submit(100, ("b", 0)))
    await settle()
    for number in range(4):
        disk.end(number)
        await settle()
    assert disk.begun == [[0], [1, 100, 2, 3], [4, 5, 6, 7], [9, 8, 10]]
    await asyncio.gather(first, *flood, other)


async def test_a_line_may_use_as_much_room_as_is_left() -> None:
    disk = Disk()
    commits: GroupCommit[int, int] = GroupCommit(disk.flush, most_waiting=8)
    flood = [asyncio.create_task(commits.submit(n, ("a", "a"))) for n in range(8)]
    others = [asyncio.create_task(commits.submit(10, ("b", "b"))), asyncio.create_task(commits.submit(11, ("c", "c")))]
    await settle()
    assert sum(isinstance(each.exception(), OverShare) for each in flood if each.done()) == 4
    disk.end(0)
    assert await asyncio.gather(*others) == [10, 11]
