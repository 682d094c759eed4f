"""What must hold after a run, whatever has failed during it. Each clause reads a history and returns its violations.

The checker uses no knowledge of the engine: only what senders, services, customers and subscribers saw, and the rows of the app.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable

from tools.chaos.app import LANE_LENGTH, is_poisoned, is_refused
from tools.chaos.history import Call, History

Clause = Callable[[History], list[str]]
CAUSED_ONCE = ("job", "batch", "limited", "reserved")
CONNECTIONS = 4
"""How many connections to the mail server a node opens."""
SHOWN = 5


def check(history: History) -> list[str]:
    """Return every violation of every clause, with the name of the clause."""
    return [f"{clause.__name__}: {problem}" for clause in CLAUSES for problem in clause(history)]


def an_acknowledged_event_has_exactly_one_effect(history: History) -> list[str]:
    counts = Counter(history.refs("event"))
    lost = [n for n in history.acknowledged if counts[n] == 0]
    return _doubled(counts, among=history.acknowledged) + _listed("lost", lost)


def an_unacknowledged_event_has_at_most_one_effect(history: History) -> list[str]:
    counts = Counter(history.refs("event"))
    sent = {request.n for request in history.requests}
    unknown = [n for n in counts if n not in sent]
    return _doubled(counts, among=sent - history.acknowledged) + _listed("never sent", unknown)


def every_caused_job_and_workflow_ran_once(history: History) -> list[str]:
    events = set(history.refs("event"))
    problems: list[str] = []
    for kind in CAUSED_ONCE:
        problems += _once_each(kind, history.refs(kind), events)
    seats, refused = history.refs("seat"), history.refs("sold_out")
    problems += _once_each("seat or sold_out", [*seats, *refused], events)
    taken, slots_refused = history.refs("slot_taken"), history.refs("slot_refused")
    problems += _once_each("slot_taken or slot_refused", [*taken, *slots_refused], events)
    return problems + _once_each("slot_freed", history.refs("slot_freed"), set(taken))


def a_refused_workflow_is_undone_once_and_no_other_is(history: History) -> list[str]:
    refused = {n for n in history.refs("event") if is_refused(n)}
    return _once_each("undone", history.refs("undone"), refused)


def calls_of_one_cause_carry_one_key(history: History) -> list[str]:
    events = set(history.refs("event"))
    problems = _one_key_each(history.calls)
    for kind in ("notify", "charge"):
        called = {call.ref for call in history.calls if call.kind == kind}
        problems += _listed(f"no call {kind}", events - called) + _listed(f"call {kind} without cause", called - events)
    return problems


def deliveries_of_one_event_carry_one_id(history: History) -> list[str]:
    events, delivered = set(history.refs("event")), {call.ref for call in history.deliveries}
    return (
        _one_key_each(history.deliveries)
        + _listed("not delivered", events - delivered)
        + _listed("delivered without cause", delivered - events)
    )


def a_message_is_sent_once_or_unknown(history: History) -> list[str]:
    """The mail server knows no keys, so a send without an answer ends as `unknown` and is never repeated."""
    events, mails = set(history.refs("event")), Counter(history.mails)
    problems = _once_each("message", [message.ref for message in history.messages], events)
    problems += _listed("mailed twice", [n for n, count in mails.items() if count > 1])
    problems += _listed("mailed without cause", [n for n in mails if n not in events])
    for message in history.messages:
        if message.status not in ("success", "unknown"):
            problems.append(f"message {message.ref} is {message.status}")
        elif message.status == "success" and mails[message.ref] == 0:
            problems.append(f"message {message.ref} counts as sent and was not received")
    return problems


def a_message_that_never_left_is_not_unknown(history: History) -> list[str]:
    """A send is recorded when its connection is held: an interruption leaves at most one such message per connection."""
    mails = set(history.mails)
    never_left = [each.ref for each in history.messages if each.status == "unknown" and each.ref not in mails]
    return (
        _listed("unknown and never sent", never_left) if len(never_left) > CONNECTIONS * history.interruptions else []
    )


def no_workflow_ended_with_a_missing_step(history: History) -> list[str]:
    return _listed("ended with a gap in its history: workflow", history.gaps)


def a_poisoned_job_is_a_dead_letter(history: History) -> list[str]:
    """It ends its process or leaks a cancellation: a failure of that job, which the other clauses must not notice."""
    return _once_each("poisoned", history.poisoned, {n for n in history.refs("event") if is_poisoned(n)})


def an_ordered_lane_keeps_its_order(history: History) -> list[str]:
    positions: dict[int, list[int]] = defaultdict(list)
    for effect in history.effects:
        if effect.kind == "ordered":
            positions[effect.ref].append(effect.position)
    wrong = [n for n in set(history.refs("event")) if positions[n] != list(range(LANE_LENGTH))]
    return [f"lane of {n} ran {positions[n]}" for n in wrong[:SHOWN]] + _listed(
        "lane without cause", set(positions) - set(history.refs("event"))
    )


def no_more_jobs_of_a_lane_ran_at_once_than_its_limit(history: History) -> list[str]:
    intervals = [
        (effect.started, effect.ended)
        for effect in history.effects
        if effect.kind == "limited" and effect.started is not None
    ]
    return _at_most(intervals, history.lane_limit)


def no_more_slots_were_taken_than_there_are(history: History) -> list[str]:
    freed = {effect.ref: effect.ended for effect in history.effects if effect.kind == "slot_freed"}
    intervals = [
        (effect.ended, freed[effect.ref])
        for effect in history.effects
        if effect.kind == "slot_taken" and effect.ref in freed
    ]
    return _at_most(intervals, history.slots)


def capacity_is_never_exceeded(history: History) -> list[str]:
    problems: list[str] = []
    if history.sold > history.capacity:
        problems.append(f"{history.sold} of {history.capacity} places are sold")
    if history.sold != len(history.refs("seat")):
        problems.append(f"{history.sold} places are sold, {len(history.refs('seat'))} buyers have one")
    return problems


def the_ledger_has_every_sale_once(history: History) -> list[str]:
    expected = sum(n + 1 for n in set(history.refs("event")))
    if history.ledger_debits == history.ledger_credits == expected:
        return []
    return [f"debits {history.ledger_debits}, credits {history.ledger_credits}, the sales are {expected}"]


def a_due_time_runs_once(history: History) -> list[str]:
    ticks = Counter(history.refs("tick"))
    return _doubled(ticks, among=set(ticks)) + _listed("run without effect", set(history.runs) - set(ticks))


def subscribers_hold_what_the_database_says(history: History) -> list[str]:
    count = len(history.refs("event"))
    return [f"a subscriber holds {held}, the database says {count}" for held in history.subscribed if held != count]


def no_work_is_left(history: History) -> list[str]:
    return [f"unfinished: {work}" for work in history.unfinished[:SHOWN]] + [
        f"dead letter: {work}" for work in history.dead_letters[:SHOWN]
    ]


def no_node_ended_by_itself(history: History) -> list[str]:
    """Nodes are restarted by the faults, never by a failover."""
    return [f"{node} ended" for node in history.ended_nodes]


def onceward_verify_finds_nothing(history: History) -> list[str]:
    return list(history.failed_checks)


CLAUSES: tuple[Clause, ...] = (
    an_acknowledged_event_has_exactly_one_effect,
    an_unacknowledged_event_has_at_most_one_effect,
    every_caused_job_and_workflow_ran_once,
    a_refused_workflow_is_undone_once_and_no_other_is,
    calls_of_one_cause_carry_one_key,
    deliveries_of_one_event_carry_one_id,
    a_message_is_sent_once_or_unknown,
    a_message_that_never_left_is_not_unknown,
    no_workflow_ended_with_a_missing_step,
    a_poisoned_job_is_a_dead_letter,
    an_ordered_lane_keeps_its_order,
    no_more_jobs_of_a_lane_ran_at_once_than_its_limit,
    no_more_slots_were_taken_than_there_are,
    capacity_is_never_exceeded,
    the_ledger_has_every_sale_once,
    a_due_time_runs_once,
    subscribers_hold_what_the_database_says,
    no_work_is_left,
    no_node_ended_by_itself,
    onceward_verify_finds_nothing,
)


def _listed(what: str, refs: Iterable[int]) -> list[str]:
    """Return one line for all of them, so that a thousand losses do not make a thousand lines."""
    found = sorted(refs)
    return (
        [f"{what}: {len(found)} ({', '.join(map(str, found[:SHOWN]))}{', ...' if len(found) > SHOWN else ''})"]
        if found
        else []
    )


def _doubled(counts: Counter[int], *, among: set[int]) -> list[str]:
    return _listed("doubled", [n for n, count in counts.items() if count > 1 and n in among])


def _once_each(kind: str, refs: list[int], expected: set[int]) -> list[str]:
    counts = Counter(refs)
    return (
        _listed(f"{kind} missing", expected - set(counts))
        + _listed(f"{kind} without cause", set(counts) - expected)
        + _listed(f"{kind} doubled", [n for n, count in counts.items() if count > 1])
    )


def _one_key_each(calls: list[Call]) -> list[str]:
    keys: dict[tuple[str, int], set[str]] = defaultdict(set)
    causes: dict[str, set[tuple[str, int]]] = defaultdict(set)
    for call in calls:
        keys[call.kind, call.ref].add(call.key)
        causes[call.key].add((call.kind, call.ref))
    several = [ref for (_, ref), used in keys.items() if len(used) > 1]
    shared = [ref for used in causes.values() if len(used) > 1 for _, ref in used]
    return _listed("several keys", several) + _listed("a key shared by several causes", shared)


def _at_most(intervals: list[tuple[int, int]], limit: int) -> list[str]:
    """Return a violation if more than `limit` of the intervals overlap. One that ends when another starts does not."""
    changes = sorted(
        [(start, 1) for start, end in intervals if end > start] + [(end, -1) for start, end in intervals if end > start]
    )
    now = most = 0
    for _, change in changes:
        now += change
        most = max(most, now)
    return [f"{most} at the same time, {limit} are allowed"] if most > limit else []
