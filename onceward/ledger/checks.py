"""Recompute the ledger from its entries and report every difference. Read-only; each check is one pass over the entries."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from onceward.db import Connection, Transaction
from onceward.trust.invariants import Check

LIMIT = 100
"""The number of differences that each check reports."""

BALANCED = """
with sums as (
    select debit_id as account_id, sum(amount) as debits, 0 as credits
    from onceward.ledger_entries where not pending group by debit_id
    union all
    select credit_id, 0, sum(amount)
    from onceward.ledger_entries where not pending group by credit_id
)
select format('organization %s, %s: debits %s, credits %s', a.organization_id, a.currency, sum(debits), sum(credits))
from sums s join onceward.ledger_accounts a on a.id = s.account_id
group by a.organization_id, a.currency
having sum(debits) <> sum(credits)
limit $1
"""
ENTRIES = """
select format('entry %s of journal %s: wrong journal, wrong organization or currency of an account, or invalid amount',
              e.id, e.journal_id)
from onceward.ledger_entries e
left join onceward.ledger_journals j on j.id = e.journal_id and j.organization_id = e.organization_id
left join onceward.ledger_accounts d
    on d.id = e.debit_id and d.organization_id = e.organization_id and d.currency = e.currency
left join onceward.ledger_accounts c
    on c.id = e.credit_id and c.organization_id = e.organization_id and c.currency = e.currency
where j.id is null or d.id is null or c.id is null or e.amount < 1 or e.debit_id = e.credit_id
   or e.pending <> (j.kind = 'pending') or (e.origin is not null) <> (j.about is not null)
limit $1
"""
JOURNALS = """
select format('journal %s should have %s entries with a total of %s, but has %s with %s',
              j.id, j.entries, j.total, coalesce(e.n, 0), coalesce(e.total, 0))
from onceward.ledger_journals j
left join (
    select journal_id, count(*) as n, sum(amount) as total from onceward.ledger_entries group by journal_id
) e on e.journal_id = j.id
where j.entries <> coalesce(e.n, 0) or j.total <> coalesce(e.total, 0)
limit $1
"""
CHECKPOINTS = """
with sums as (
    select account_id, sum(debit) as debits, sum(credit) as credits
    from (
        select debit_id as account_id, amount as debit, 0 as credit
        from onceward.ledger_entries, onceward.ledger_horizon where id <= through and not pending
        union all
        select credit_id, 0, amount
        from onceward.ledger_entries, onceward.ledger_horizon where id <= through and not pending
    ) legs
    group by account_id
)
select format('account %s: the checkpoint has debits %s, credits %s; the entries sum to %s, %s', coalesce(c.account_id, s.account_id),
              c.debits, c.credits, s.debits, s.credits)
from onceward.ledger_checkpoints c
full join sums s on s.account_id = c.account_id
where (c.debits, c.credits) is distinct from (s.debits, s.credits)
limit $1
"""
DRAWN = """
with drawn as (
    select origin, sum(amount) as amount from onceward.ledger_entries where origin is not null group by origin
)
select format('entry %s of %s: reversals and settlements sum to %s, but %s is recorded',
              coalesce(r.entry_id, d.origin), r.amount, coalesce(d.amount, 0), r.drawn)
from onceward.ledger_drawn r
full join drawn d on d.origin = r.entry_id
where r.drawn is distinct from d.amount or r.drawn > r.amount
limit $1
"""
PENDING = """
with open as (
    select id from onceward.ledger_journals j
    where kind = 'pending'
      and not exists (select from onceward.ledger_journals e where e.about = j.id and e.kind in ('settlement', 'void'))
)
select format('journal %s is %s', coalesce(p.journal_id, o.id),
              case when o.id is null then 'listed as pending, but has ended' else 'pending, but not listed in ledger_pending' end)
from onceward.ledger_pending p
full join open o on o.id = p.journal_id
where p.journal_id is null or o.id is null
limit $1
"""
BOUNDS = """
with legs as (
    select debit_id as account_id, amount, true as debit, journal_id, pending from onceward.ledger_entries
    union all
    select credit_id, amount, false, journal_id, pending from onceward.ledger_entries
), expected as (
    select a.id as account_id,
           coalesce(sum(case when l.debit = a.debit_normal then l.amount else -l.amount end)
                    filter (where not l.pending), 0) as balance,
           coalesce(sum(l.amount) filter (where l.debit <> a.debit_normal and p.journal_id is not null), 0) as reserved
    from onceward.ledger_accounts a
    left join legs l on l.account_id = a.id
    left join onceward.ledger_pending p on p.journal_id = l.journal_id
    where a.bounded
    group by a.id
)
select format('bounded account %s: recorded balance %s and reserved %s, but the entries give %s and %s',
              coalesce(b.account_id, e.account_id), b.balance, b.reserved, e.balance, e.reserved)
from onceward.ledger_bounds b
full join expected e on e.account_id = b.account_id
where (b.balance, b.reserved) is distinct from (e.balance, e.reserved) or b.balance < b.reserved
limit $1
"""
GUARDS = """
select format('%s: trigger %s is missing or disabled', t.name, t.guard)
from (values ('ledger_journals', 'append_only'), ('ledger_entries', 'append_only'), ('ledger_entries', 'drawn_on'),
             ('ledger_accounts', 'append_only'), ('ledger_accounts', 'never_deleted')) as t (name, guard)
where not exists (
    select from pg_trigger g
    where g.tgrelid = to_regclass('onceward.' || t.name) and g.tgname = t.guard and g.tgenabled in ('O', 'A'))
limit $1
"""


def _returns_no_rows(query: str) -> Callable[[Connection], Awaitable[list[str]]]:
    async def run(conn: Connection) -> list[str]:
        return [row[0] for row in await conn.fetch(query, LIMIT)]

    return run


CHECKS: tuple[Check, ...] = (
    Check("ledger.debits_equal_credits", _returns_no_rows(BALANCED)),
    Check("ledger.entries_stay_within_organization_and_currency", _returns_no_rows(ENTRIES)),
    Check("ledger.journals_have_all_their_entries", _returns_no_rows(JOURNALS)),
    Check("ledger.checkpoints_are_sums_of_entries", _returns_no_rows(CHECKPOINTS)),
    Check("ledger.reversals_stay_within_originals", _returns_no_rows(DRAWN)),
    Check("ledger.pending_has_not_ended", _returns_no_rows(PENDING)),
    Check("ledger.bounded_accounts_match_their_entries", _returns_no_rows(BOUNDS)),
    Check("ledger.nothing_can_be_changed", _returns_no_rows(GUARDS)),
)
"""The checks read all organizations, so they run as the engine."""


async def check(conn: Connection | Transaction) -> list[str]:
    """Run all checks. Return one line per difference, with the rule and the row; empty if the ledger is correct."""
    connection = conn.conn if isinstance(conn, Transaction) else conn
    return [f"{rule.name}: {finding}" for rule in CHECKS for finding in await rule.run(connection)]
