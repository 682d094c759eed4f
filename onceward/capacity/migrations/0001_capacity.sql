-- Groups of pools, for example all rows of seats of an event. The totals of a group cost the same for any number of pools.
create table onceward.capacity_groups (
    id bigint primary key default nextval('onceward.ids'),
    organization_id uuid not null default onceward.organization(),
    key text not null check (length(key) between 1 and 200),
    unique (organization_id, key),
    unique (id, organization_id)
);
select onceward.protect('onceward.capacity_groups');

-- The totals of a group in several rows. Each session changes a row of its own, so that claims on different pools of one
-- group do not wait for each other. Only the sum of the rows has a meaning; a single row may be negative.
create table onceward.capacity_totals (
    group_id bigint not null,
    stripe int not null,
    organization_id uuid not null,
    capacity bigint not null default 0,
    held bigint not null default 0,                   -- includes expired holds until they are reaped
    sold bigint not null default 0,
    primary key (group_id, stripe),
    foreign key (group_id, organization_id) references onceward.capacity_groups (id, organization_id)
) with (fillfactor = 50);
select onceward.protect('onceward.capacity_totals');

create table onceward.capacity_pools (
    id bigint primary key default nextval('onceward.ids'),
    organization_id uuid not null default onceward.organization(),
    key text not null check (length(key) between 1 and 200),
    capacity bigint check (capacity >= 0),            -- null: unlimited; 0: closed
    named boolean not null default false,             -- every claim names its unit
    held bigint not null default 0 check (held >= 0), -- includes expired holds until they are reaped
    sold bigint not null default 0 check (sold >= 0),
    kept bigint not null default 0 check (kept >= 0), -- the excess over a lowered capacity; it only decreases
    group_id bigint,                                  -- the group whose totals include this pool
    caused_by bigint,
    created_at timestamptz not null default onceward.now(),
    unique (organization_id, key),
    unique (id, organization_id),
    foreign key (group_id, organization_id) references onceward.capacity_groups (id, organization_id),
    constraint capacity_not_oversold check (capacity is null or held + sold <= greatest(capacity, kept))
) with (fillfactor = 50);
comment on constraint capacity_not_oversold on onceward.capacity_pools is
    'Prevents overselling at every isolation level: the claim and the counter change in one statement, which this constraint checks.';
select onceward.protect('onceward.capacity_pools');

create table onceward.capacity_units (
    pool_id bigint not null,
    unit text not null check (length(unit) between 1 and 200),
    organization_id uuid not null,
    primary key (pool_id, unit, organization_id),         -- the pool decides the organization
    foreign key (pool_id, organization_id) references onceward.capacity_pools (id, organization_id)
);
select onceward.protect('onceward.capacity_units');

create table onceward.capacity_claims (
    id bigint primary key default nextval('onceward.ids'),
    organization_id uuid not null,
    pool_id bigint not null,
    group_id bigint,                                  -- that of the pool
    unit text,
    quantity bigint not null check (quantity > 0),
    holder text not null check (length(holder) between 1 and 200),
    state text not null check (state in ('held', 'sold', 'released', 'expired')),
    expires_at timestamptz,
    claimed_at timestamptz not null,
    ended_at timestamptz,
    caused_by bigint,
    check (unit is null or quantity = 1),
    check (state <> 'held' or expires_at is not null),
    check ((ended_at is not null) = (state in ('released', 'expired'))),
    foreign key (pool_id, organization_id) references onceward.capacity_pools (id, organization_id),
    foreign key (pool_id, unit, organization_id) references onceward.capacity_units (pool_id, unit, organization_id)
);
create unique index capacity_unit_taken_once on onceward.capacity_claims (pool_id, unit)
    where unit is not null and state in ('held', 'sold');
create index capacity_claims_expiry on onceward.capacity_claims (pool_id, expires_at) where state = 'held';
create index capacity_claims_of_group on onceward.capacity_claims (group_id, expires_at)
    where state = 'held' and group_id is not null;
create index capacity_claims_due on onceward.capacity_claims (expires_at) where state = 'held';
create index capacity_claims_holder on onceward.capacity_claims (organization_id, holder);
create index capacity_claims_caused_by on onceward.capacity_claims (caused_by) where caused_by is not null;
select onceward.protect('onceward.capacity_claims');

-- The app role can read these tables; only the functions of this package write to them.
revoke insert, update, delete on onceward.capacity_groups, onceward.capacity_totals, onceward.capacity_pools,
    onceward.capacity_units, onceward.capacity_claims from onceward_app, onceward_engine;
grant update (holder) on onceward.capacity_claims to onceward_engine;  -- to erase a person

-- `onceward trace` finds rows by their cause, and must not read the whole table.

create index capacity_pools_caused_by on onceward.capacity_pools (caused_by) where caused_by is not null;
