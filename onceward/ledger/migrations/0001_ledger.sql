-- Accounts, journals and their entries. An entry has one debit and one credit account, so the ledger is always in balance.

create table onceward.ledger_accounts (
    id bigint not null default nextval('onceward.ids'),
    organization_id uuid not null default onceward.organization(),
    code text not null check (code ~ '^[A-Za-z0-9][A-Za-z0-9_.:/-]{0,99}$'),
    currency text not null check (currency ~ '^[A-Z]{3}$'),
    kind text not null check (kind in ('asset', 'liability', 'equity', 'revenue', 'expense')),
    name text,
    bounded boolean not null default false,       -- its balance may not fall below zero; posting to it locks a row
    debit_normal boolean not null generated always as (kind in ('asset', 'expense')) stored,
    caused_by bigint,
    created_at timestamptz not null default onceward.now(),
    primary key (id, organization_id, currency),  -- entries refer to this key, so the organization and currency must match
    unique (organization_id, code, currency)
);
select onceward.protect('onceward.ledger_accounts');

create table onceward.ledger_journals (
    id bigint not null default nextval('onceward.ids'),
    organization_id uuid not null,
    key text not null check (length(key) between 1 and 200),
    kind text not null check (kind in ('posted', 'pending', 'settlement', 'void', 'reversal')),
    about bigint,                                 -- the journal that this one settles, voids or reverses
    body bytea not null,                          -- digest of the request with this key
    entries int not null check ((entries = 0) = (kind = 'void')),
    total numeric not null,                       -- with the count, it reveals a missing entry
    memo text,
    caused_by bigint,
    created_at timestamptz not null default onceward.now(),
    primary key (id, organization_id),
    unique (organization_id, key),
    foreign key (about, organization_id) references onceward.ledger_journals (id, organization_id),
    check ((about is null) = (kind in ('posted', 'pending')))
);
create unique index ledger_pending_ends_once on onceward.ledger_journals (about) where kind in ('settlement', 'void');
create index ledger_journals_reversals on onceward.ledger_journals (about) where kind = 'reversal';
create index ledger_journals_caused_by on onceward.ledger_journals (caused_by) where caused_by is not null;
-- A trial balance of an earlier date reads what was posted since. Journals are written in the order of time.
create index ledger_journals_by_time on onceward.ledger_journals using brin (created_at) with (pages_per_range = 16);
select onceward.protect('onceward.ledger_journals');

create sequence onceward.ledger_entry_ids;

create table onceward.ledger_entries (
    journal_id bigint not null,
    id bigint not null default nextval('onceward.ledger_entry_ids'),
    organization_id uuid not null,
    debit_id bigint not null,
    credit_id bigint not null,
    amount bigint not null,
    currency text not null,
    pending boolean not null,
    origin bigint,                                -- the entry that this one settles or reverses
    primary key (journal_id, id),
    constraint ledger_amount_in_range check (amount between 1 and 9007199254740991),
    constraint ledger_two_accounts check (debit_id <> credit_id),
    constraint ledger_own_journal foreign key (journal_id, organization_id)
        references onceward.ledger_journals (id, organization_id),
    constraint ledger_own_debit foreign key (debit_id, organization_id, currency)
        references onceward.ledger_accounts (id, organization_id, currency),
    constraint ledger_own_credit foreign key (credit_id, organization_id, currency)
        references onceward.ledger_accounts (id, organization_id, currency)
);
comment on constraint ledger_amount_in_range on onceward.ledger_entries is
    'Minor units. The upper bound is the largest integer that every JSON reader keeps exactly.';
create index ledger_entries_debit on onceward.ledger_entries (debit_id, id);
create index ledger_entries_credit on onceward.ledger_entries (credit_id, id);
create index ledger_entries_by_id on onceward.ledger_entries using brin (id);
select onceward.protect('onceward.ledger_entries');

-- Derived tables. `onceward ledger check` computes them again and compares.

create table onceward.ledger_pending (
    journal_id bigint primary key,
    organization_id uuid not null,
    foreign key (journal_id, organization_id) references onceward.ledger_journals (id, organization_id)
);
create index ledger_pending_organization on onceward.ledger_pending (organization_id);
comment on table onceward.ledger_pending is 'Pending journals that are not yet settled or voided.';
select onceward.protect('onceward.ledger_pending');

create table onceward.ledger_drawn (
    entry_id bigint primary key,
    organization_id uuid not null,
    amount bigint not null,
    drawn bigint not null,
    constraint ledger_not_overdrawn check (drawn between 1 and amount)
);
comment on table onceward.ledger_drawn is
    'How much of an entry has been reversed (or settled, if it was pending). The check limits it at every isolation level.';
select onceward.protect('onceward.ledger_drawn');

create table onceward.ledger_bounds (
    account_id bigint primary key,
    organization_id uuid not null,
    balance bigint not null default 0,
    reserved bigint not null default 0 check (reserved >= 0),
    constraint ledger_not_below_zero check (balance - reserved >= 0)
) with (fillfactor = 50);
comment on table onceward.ledger_bounds is 'One row for each bounded account, which every posting to it locks. Other accounts have no row.';
select onceward.protect('onceward.ledger_bounds');

create table onceward.ledger_horizon (
    one boolean primary key default true check (one),
    through bigint not null default 0,            -- the checkpoints contain all entries up to this id, and no new one can appear
    proposed bigint,
    barrier xid8                                  -- when all older transactions have ended, `proposed` is safe
);
insert into onceward.ledger_horizon default values;
grant select on onceward.ledger_horizon to onceward_app, onceward_engine;

create table onceward.ledger_checkpoints (
    account_id bigint primary key,
    organization_id uuid not null,
    debits numeric not null,
    credits numeric not null,
    unmarked bigint not null                      -- entries since the last mark of the account
);
comment on table onceward.ledger_checkpoints is 'The sums of the posted entries of each account, up to the horizon.';
select onceward.protect('onceward.ledger_checkpoints');

create table onceward.ledger_marks (
    account_id bigint not null,
    through bigint not null,                      -- the sums contain all entries of the account up to this id
    organization_id uuid not null,
    debits numeric not null,
    credits numeric not null,
    primary key (account_id, through)
);
comment on table onceward.ledger_marks is
    'The sums of an account after about every 1,000 entries, so that a page of its statement does not read all that came before.';
select onceward.protect('onceward.ledger_marks');

create table onceward.ledger_periods (
    organization_id uuid not null default onceward.organization(),
    until timestamptz not null,                   -- the period ends before it
    balances jsonb not null,                      -- of all accounts, as they were when it was closed
    note text not null default '',
    closed_by text not null,
    closed_at timestamptz not null default onceward.now(),
    primary key (organization_id, until)
);
comment on table onceward.ledger_periods is 'Closed periods with their frozen balances. Rows never change.';
select onceward.protect('onceward.ledger_periods');
revoke update, delete on onceward.ledger_periods from onceward_app, onceward_engine;

-- The app role can read these tables; only the functions of this package write to them.

revoke insert, update, delete on onceward.ledger_accounts, onceward.ledger_journals, onceward.ledger_entries,
    onceward.ledger_pending, onceward.ledger_drawn, onceward.ledger_bounds, onceward.ledger_checkpoints,
    onceward.ledger_marks
    from onceward_app, onceward_engine;

-- `onceward trace` finds rows by their cause, and must not read the whole table.

create index ledger_accounts_caused_by on onceward.ledger_accounts (caused_by) where caused_by is not null;
