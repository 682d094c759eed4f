-- onceward: expand
-- Who was erased, and when. A message of a transaction that began before is not sent: the erasure could not see it.
create table onceward.erasures (
    person_hash text not null,              -- the onceward.person_hash of each reference that was given
    organization_id uuid,                   -- null: the data that belongs to no organization
    erased_at timestamptz not null          -- the latest erasure, by the clock that sets created_at of other rows;
                                            -- infinity: it has committed, and nobody has noted when
);
create unique index erasures_key on onceward.erasures
    (person_hash, coalesce(organization_id, '00000000-0000-0000-0000-000000000000'));
create index erasures_open on onceward.erasures (erased_at) where erased_at = 'infinity';
comment on table onceward.erasures is 'Hashes of the references to people who were erased. Messages that were queued before are not sent.';
select onceward.protect('onceward.erasures');
revoke all on onceward.erasures from onceward_app;

-- An erasure reads in turns what no index leads to. The names of the person are deleted when it has ended.
create table onceward.erasure_scans (
    id bigint primary key default nextval('onceward.ids'),
    organization_id uuid,                   -- null: the data that belongs to no organization
    people text[],                          -- the references that were given; null: it has ended
    also_known_as text[],
    actor text not null,
    user_id text,
    reason text,
    erasers text[] not null,                -- a process continues only what it knows all erasers of
    eraser text,                            -- whose table is being read
    last text[],                            -- the last row that was read, by the index in whose order the table is read
    examined bigint not null default 0,
    found jsonb not null default '{}',      -- numbers of rows by eraser
    started_at timestamptz not null default onceward.now(),
    turned_at timestamptz not null default clock_timestamp(),
    finished_at timestamptz
);
create index erasure_scans_unfinished on onceward.erasure_scans (turned_at) where finished_at is null;
comment on table onceward.erasure_scans is 'Erasures that read the tables in turns, and how far they are.';
select onceward.protect('onceward.erasure_scans');
revoke all on onceward.erasure_scans from onceward_app;
