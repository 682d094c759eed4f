"""Any sequence of posts, reversals, settlements, checkpoints and crashes keeps the books right, entry by entry."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from onceward.ledger import (
    Entry,
    Insufficient,
    KeyConflict,
    OverDrawn,
    Part,
    balance,
    check,
    checkpoint,
    open_account,
    post,
    reverse,
    settle,
    trial_balance,
    void,
)
from tests.state_machines import DatabaseMachine, check_machine

CODES = {"cash": 1, "fees": 1, "revenue": -1, "wallet": -1, "purse": 1}
BOUNDED = {"wallet", "purse"}

entries = st.lists(
    st.tuples(st.sampled_from(list(CODES)), st.sampled_from(list(CODES)), st.integers(1, 50))
    .filter(lambda entry: entry[0] != entry[1])
    .map(lambda entry: Entry(*entry, "EUR")),
    min_size=1,
    max_size=3,
)


@dataclass
class Known:
    """A journal as the model remembers it: what is left of each of its entries."""

    id: int
    entries: list[Entry]
    ids: list[int]
    left: list[int] = field(default_factory=list[int])


class Books(DatabaseMachine):
    def __init__(self) -> None:
        super().__init__()
        self.organization = uuid.uuid4()
        self.debits = dict.fromkeys(CODES, 0)
        self.reserved = dict.fromkeys(CODES, 0)
        self.posted: list[Known] = []
        self.pending: list[Known] = []
        self.keys: dict[str, tuple[int, list[Entry]]] = {}
        self.run(self.open_accounts())

    async def open_accounts(self) -> None:
        async with self.db.transaction(organization=self.organization) as tx:
            for code, side in CODES.items():
                kind = "asset" if side > 0 else "liability"
                await open_account(tx, code, currency="EUR", kind=kind, bounded=code in BOUNDED)

    # -- the model ---------------------------------------------------------------------------------------------

    def affordable(self, moves: list[tuple[str, int]], *, reserve: bool = False) -> bool:
        """Whether these debits (credits are negative) leave every bounded account at zero or more."""
        after = {code: CODES[code] * self.debits[code] - self.reserved[code] for code in CODES}
        for code, debit in moves:
            gain = CODES[code] * debit
            after[code] += min(gain, 0) if reserve else gain
        touched = {code for code, _ in moves}
        return all(after[code] >= 0 for code in BOUNDED & touched)

    def moves(self, listed: list[Entry], amounts: list[int], sign: int = 1) -> list[tuple[str, int]]:
        pairs = zip(listed, amounts, strict=True)
        return [move for e, n in pairs for move in ((e.debit, sign * n), (e.credit, -sign * n))]

    def book(self, moves: list[tuple[str, int]]) -> None:
        for code, debit in moves:
            self.debits[code] += debit

    def hold(self, known: Known, sign: int) -> None:
        for code, debit in self.moves(known.entries, [e.amount for e in known.entries]):
            if code in BOUNDED and CODES[code] * debit < 0:
                self.reserved[code] += sign * abs(debit)

    async def attempt(self, call: Any) -> Any:
        """The call's result, or the ledger's refusal."""
        try:
            async with self.db.transaction(organization=self.organization) as tx:
                journal = await call(tx)
                rows = await tx.fetch(
                    "select id from onceward.ledger_entries where journal_id = $1 order by id", journal.id
                )
                return journal.id, [row["id"] for row in rows]
        except (Insufficient, OverDrawn, KeyConflict) as refused:
            return type(refused)

    # -- what can happen ---------------------------------------------------------------------------------------

    @rule(wanted=entries, pending=st.booleans(), twice=st.booleans())
    def post_something(self, wanted: list[Entry], pending: bool, twice: bool) -> None:
        key = str(uuid.uuid4())
        moves = self.moves(wanted, [e.amount for e in wanted])
        expected = self.affordable(moves, reserve=pending)
        outcome = self.run(self.attempt(lambda tx: post(tx, wanted, key=key, pending=pending)))
        assert (outcome is Insufficient) != expected
        if outcome is Insufficient:
            return
        known = Known(outcome[0], wanted, outcome[1], [e.amount for e in wanted])
        if pending:
            self.pending.append(known)
            self.hold(known, 1)
        else:
            self.posted.append(known)
            self.book(moves)
        self.keys[key] = (known.id, wanted)
        if twice:
            again = self.run(self.attempt(lambda tx: post(tx, wanted, key=key, pending=pending)))
            assert again[0] == known.id

    @precondition(lambda self: self.keys)
    @rule(data=st.data(), other=entries)
    def post_another_body_under_a_used_key(self, data: st.DataObject, other: list[Entry]) -> None:
        key = data.draw(st.sampled_from(sorted(self.keys)))
        if other != self.keys[key][1]:
            outcome = self.run(self.attempt(lambda tx: post(tx, other, key=key, memo="other")))
            assert outcome is KeyConflict

    @precondition(lambda self: self.posted)
    @rule(data=st.data(), amount=st.integers(1, 60))
    def reverse_some_of_one_entry(self, data: st.DataObject, amount: int) -> None:
        known = data.draw(st.sampled_from(self.posted))
        which = data.draw(st.integers(0, len(known.entries) - 1))
        moves = self.moves([known.entries[which]], [amount], -1)
        outcome = self.run(
            self.attempt(
                lambda tx: reverse(tx, known.id, key=str(uuid.uuid4()), entries=[Part(known.ids[which], amount)])
            )
        )
        if amount > known.left[which]:
            assert outcome is OverDrawn
        elif not self.affordable(moves):
            assert outcome is Insufficient
        else:
            assert isinstance(outcome, tuple)
            known.left[which] -= amount
            self.book(moves)

    @precondition(lambda self: self.pending)
    @rule(data=st.data(), full=st.booleans())
    def end_what_is_pending(self, data: st.DataObject, full: bool) -> None:
        known = data.draw(st.sampled_from(self.pending))
        self.pending.remove(known)
        self.hold(known, -1)
        if not full:
            assert isinstance(self.run(self.attempt(lambda tx: void(tx, known.id, key=str(uuid.uuid4())))), tuple)
            return
        moves = self.moves(known.entries, known.left)
        outcome = self.run(self.attempt(lambda tx: settle(tx, known.id, key=str(uuid.uuid4()))))
        assert isinstance(outcome, tuple), "what was reserved can always be settled"
        self.book(moves)
        self.posted.append(Known(outcome[0], known.entries, outcome[1], list(known.left)))

    @rule(wanted=entries)
    def crash_before_the_commit(self, wanted: list[Entry]) -> None:
        async def crash() -> None:
            conn = await self.db.connect()
            await conn.execute(f"begin; set local onceward.organization = '{self.organization}'")
            await conn.execute("savepoint s")
            try:
                await conn.fetch(
                    "select * from onceward.ledger_post($1, $2, $3, $4, $5)",
                    str(uuid.uuid4()),
                    [e.debit for e in wanted],
                    [e.credit for e in wanted],
                    [e.amount for e in wanted],
                    ["EUR"] * len(wanted),
                )
            finally:
                conn.terminate()

        try:
            self.run(crash())
        except Exception as refused:
            assert "is needed" in str(refused)  # noqa: PT017 - a refusal is as good a crash

    @rule()
    def fold_a_checkpoint(self) -> None:
        self.run(checkpoint(self.db))

    # -- what must hold ----------------------------------------------------------------------------------------

    @invariant()
    def the_books_are_right(self) -> None:
        async def look() -> None:
            async with self.db.transaction(organization=self.organization) as tx:
                for trial in await trial_balance(tx):
                    assert trial.difference == 0
                for code, side in CODES.items():
                    found = await balance(tx, code, currency="EUR")
                    assert found.balance == side * self.debits[code]
                    if code in BOUNDED:
                        assert found.available == side * self.debits[code] - self.reserved[code] >= 0
            async with self.db.acquire() as conn:
                assert await check(conn) == []

        self.run(look())


def test_any_sequence_keeps_trial_balances_zero_and_every_check_green(database_url: str, thorough: bool) -> None:
    check_machine(Books, database_url, thorough=thorough)
