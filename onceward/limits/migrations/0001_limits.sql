-- Limits on how much runs at once, and on how often something is done. A slot has a number and an owner, which is unfinished work.

create table onceward.limits (
    name text primary key,
    at_most smallint not null check (at_most > 0),
    changed_at timestamptz not null default clock_timestamp(),
    reason text,
    wanted_at timestamptz not null default '-infinity'   -- when somebody last wanted a slot and got none
);
comment on table onceward.limits is 'Limits that can change while the system runs. The limit `global` follows the load.';
insert into onceward.limits (name, at_most, changed_at, reason) values ('global', 3, '-infinity', 'start');
grant select, insert, update, delete on onceward.limits to onceward_engine;

create table onceward.limit_changes (
    name text not null,
    changed_at timestamptz not null,
    before smallint,                       -- null: the limit is new
    after smallint not null,
    reason text
);
comment on table onceward.limit_changes is 'How the limits changed, and why. Kept for 90 days.';
create index limit_changes_at on onceward.limit_changes (name, changed_at desc);
grant select, insert, delete on onceward.limit_changes to onceward_engine;

create table onceward.limit_slots (
    organization_id uuid not null default '00000000-0000-0000-0000-000000000000',   -- zero: the whole instance
    key text not null,
    slot smallint not null check (slot > 0),
    work_id bigint not null,               -- if this work has ended (or is 0), the slot is free
    taken_at timestamptz not null default clock_timestamp(),
    primary key (organization_id, key, slot)
) with (fillfactor = 70);
comment on table onceward.limit_slots is
    'Admission slots. A slot is held while its owner is unfinished in onceward.work, so nobody has to release it.';
create index limit_slots_work on onceward.limit_slots (work_id);
alter table onceward.limit_slots enable row level security;
create policy engine on onceward.limit_slots for all to onceward_engine using (true) with check (true);
grant select, insert, update, delete on onceward.limit_slots to onceward_engine;

-- How often somebody may do something, counted over all nodes. There is one row for each recent user of a limit.
-- Unlogged: after a crash the allowances are full again, and no data is lost.
create unlogged table onceward.rates (
    key bytea primary key,                 -- sha256 of the limited action and its user
    full_at timestamptz not null           -- when the full allowance is available again; in the past: it is full
) with (fillfactor = 70);
grant select, insert, update, delete on onceward.rates to onceward_engine;
