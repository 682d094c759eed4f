-- Limits: never more than allowed. A slot is a row with a number and an owner; the owner is unfinished work.

create table onceward.limits (
    name text primary key,
    at_most smallint not null check (at_most > 0),
    changed_at timestamptz not null default clock_timestamp(),
    reason text
);
comment on table onceward.limits is 'Limits that change while the system runs; `global` follows the load.';
insert into onceward.limits (name, at_most, changed_at, reason) values ('global', 3, '-infinity', 'start');
grant select, insert, update, delete on onceward.limits to onceward_engine;

create table onceward.limit_slots (
    organization_id uuid not null default '00000000-0000-0000-0000-000000000000',   -- zero: the instance
    key text not null,
    slot smallint not null check (slot > 0),
    work_id bigint not null,               -- one that has ended (or 0) holds nothing: its slot is free for the taking
    taken_at timestamptz not null default clock_timestamp(),
    primary key (organization_id, key, slot)
) with (fillfactor = 70);
comment on table onceward.limit_slots is
    'Admission slots. Held while the owner is unfinished in onceward.work; there is nothing to release and nothing to leak.';
create index limit_slots_work on onceward.limit_slots (work_id);
alter table onceward.limit_slots enable row level security;
create policy engine on onceward.limit_slots for all to onceward_engine using (true) with check (true);
grant select, insert, update, delete on onceward.limit_slots to onceward_engine;

-- How often somebody may do something. One row for each who did it lately, in one statement, over all nodes.

-- Unlogged: what a crash forgets costs a minute of patience, not data.
create unlogged table onceward.rates (
    key bytea primary key,                 -- sha256 of what is limited and for whom
    full_at timestamptz not null           -- when all of the allowance will be there again; past: nothing is used up
) with (fillfactor = 70);
grant select, insert, update, delete on onceward.rates to onceward_engine;
