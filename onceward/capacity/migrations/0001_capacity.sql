-- Capacity: pools of places or named units, and claims on them. Counted by trigger, bounded by check and unique index.

create function onceward.clock() returns timestamptz
    language sql volatile as 'select clock_timestamp() + (onceward.now() - now())';
comment on function onceward.clock() is
    'The time at this instant, for decisions made after waiting for a lock. Follows onceward.now() when tests move it.';

create function onceward.required_organization() returns uuid
    language plpgsql stable parallel safe as $$
begin
    if onceward.organization() is null then
        raise exception 'this transaction acts for no organization: set one before using capacity or the ledger'
            using errcode = 'OW004';
    end if;
    return onceward.organization();
end
$$;
revoke all on function onceward.required_organization() from public;
grant execute on function onceward.required_organization() to onceward_app, onceward_engine;

create table onceward.capacity_pools (
    id bigint primary key default nextval('onceward.ids'),
    organization_id uuid not null default onceward.organization(),
    key text not null check (length(key) between 1 and 200),
    capacity bigint check (capacity >= 0),            -- null: unlimited; 0: closed
    named boolean not null default false,             -- every claim names its unit
    held bigint not null default 0 check (held >= 0), -- expired holds count until somebody reaps them
    sold bigint not null default 0 check (sold >= 0),
    kept bigint not null default 0 check (kept >= 0), -- given out before the capacity was lowered below it; only falls
    caused_by bigint,
    created_at timestamptz not null default onceward.now(),
    unique (organization_id, key),
    unique (id, organization_id),
    constraint capacity_not_oversold check (capacity is null or held + sold <= greatest(capacity, kept))
) with (fillfactor = 50);
comment on constraint capacity_not_oversold on onceward.capacity_pools is
    'Overselling is impossible at every isolation level: the counter and the claim are one statement, and this refuses it.';
select onceward.protect('onceward.capacity_pools');

create table onceward.capacity_units (
    pool_id bigint not null,
    unit text not null check (length(unit) between 1 and 200),
    organization_id uuid not null,
    primary key (pool_id, unit),
    foreign key (pool_id, organization_id) references onceward.capacity_pools (id, organization_id)
);
select onceward.protect('onceward.capacity_units');

create table onceward.capacity_claims (
    id bigint primary key default nextval('onceward.ids'),
    organization_id uuid not null,
    pool_id bigint not null,
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
    foreign key (pool_id, unit) references onceward.capacity_units (pool_id, unit)
);
create unique index capacity_unit_taken_once on onceward.capacity_claims (pool_id, unit)
    where unit is not null and state in ('held', 'sold');
create index capacity_claims_expiry on onceward.capacity_claims (pool_id, expires_at) where state = 'held';
create index capacity_claims_due on onceward.capacity_claims (expires_at) where state = 'held';
create index capacity_claims_holder on onceward.capacity_claims (organization_id, holder);
create index capacity_claims_caused_by on onceward.capacity_claims (caused_by) where caused_by is not null;
select onceward.protect('onceward.capacity_claims');

-- Read freely, written through the functions below.
revoke insert, update, delete on onceward.capacity_pools, onceward.capacity_units, onceward.capacity_claims
    from onceward_app, onceward_engine;

create function onceward.capacity_count_claim() returns trigger
    language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    update onceward.capacity_pools p
    set held = p.held + case when new.state = 'held' then new.quantity else 0 end,
        sold = p.sold + case when new.state = 'sold' then new.quantity else 0 end
    where p.id = new.pool_id;
    return null;
end
$$;
comment on function onceward.capacity_count_claim() is
    'Keeps the counters in the statement that makes a claim, so that the check on the pool judges every path.';
create trigger counted_in after insert on onceward.capacity_claims
    for each row execute function onceward.capacity_count_claim();

create function onceward.capacity_count_changes() returns trigger
    language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    update onceward.capacity_pools p
    set held = p.held + d.held,
        sold = p.sold + d.sold,
        kept = least(p.kept, p.held + d.held + p.sold + d.sold)
    from (
        select pool_id,
               coalesce(sum(quantity) filter (where state = 'held'), 0) as held,
               coalesce(sum(quantity) filter (where state = 'sold'), 0) as sold
        from (
            select pool_id, state, quantity from became
            union all
            select pool_id, state, -quantity from was
        ) changes
        group by pool_id
    ) d
    where p.id = d.pool_id and (d.held <> 0 or d.sold <> 0);
    return null;
end
$$;
comment on function onceward.capacity_count_changes() is 'The same for claims that change, a thousand of them at once when holds expire.';
create trigger counted_over after update on onceward.capacity_claims
    referencing old table as was new table as became for each statement execute function onceward.capacity_count_changes();

create function onceward.capacity_refuse_delete() returns trigger
    language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    raise exception 'claims are released, never deleted: use onceward.capacity_release' using errcode = 'OW002';
end
$$;
create trigger never_deleted before delete or truncate on onceward.capacity_claims
    for each statement execute function onceward.capacity_refuse_delete();

create function onceward.capacity_judge(p_pools bigint[], p_units text[], p_quantities bigint[]) returns jsonb
    language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    return (with wants as (
        select * from unnest(p_pools, p_units, p_quantities) as w (pool_id, unit, quantity)
    ), asked as (
        select pool_id, sum(quantity) as quantity from wants group by pool_id
    ), full_pools as (
        select p.id, p.key, a.quantity, greatest(p.capacity - p.held - p.sold, 0) as free, p.capacity
        from asked a join onceward.capacity_pools p on p.id = a.pool_id
        where p.capacity is not null and p.held + p.sold + a.quantity > p.capacity
    ), reasons as (
        select 1 as rank, f.key, null::text as unit, case when f.capacity = 0 then 'closed' else 'full' end as reason,
               f.quantity as wanted, f.free,
               case when f.quantity <= f.capacity then (
                   -- At most as many holds as places are missing need to end: each frees one or more.
                   select min(expires_at) from (
                       select h.expires_at, sum(h.quantity) over (order by h.expires_at, h.id) as freed
                       from (
                           select id, expires_at, quantity from onceward.capacity_claims
                           where pool_id = f.id and state = 'held'
                           order by expires_at, id
                           limit least(f.quantity - f.free, 1000)
                       ) h
                   ) x
                   where freed >= f.quantity - f.free
               ) end as until
        from full_pools f
        union all
        select 2, p.key, w.unit, 'taken', 1, 0, case when c.state = 'held' then c.expires_at end
        from wants w
        join onceward.capacity_claims c
            on c.pool_id = w.pool_id and c.unit = w.unit and c.unit is not null and c.state in ('held', 'sold')
        join onceward.capacity_pools p on p.id = w.pool_id
    )
    select jsonb_agg(jsonb_build_object('pool', key, 'unit', unit, 'reason', reason, 'wanted', wanted,
                                        'free', free, 'until', until) order by rank, key, unit)
    from reasons);
end
$$;
comment on function onceward.capacity_judge(bigint[], text[], bigint[]) is
    'Why these wants cannot be met now, and until when; null when they can. The pools must be locked and reaped.';

create function onceward.capacity_reap_pools(p_pools bigint[], p_moment timestamptz, p_except bigint[]) returns bigint
    language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    ended bigint;
begin
    -- Looked up before it is updated: an update that finds nothing still runs its trigger, and most find nothing.
    if not exists (select from onceward.capacity_claims
                   where pool_id = any (p_pools) and state = 'held' and expires_at <= p_moment) then
        return 0;
    end if;
    update onceward.capacity_claims set state = 'expired', ended_at = p_moment
    where pool_id = any (p_pools) and state = 'held' and expires_at <= p_moment and id <> all (p_except);
    get diagnostics ended = row_count;
    return ended;
end
$$;
comment on function onceward.capacity_reap_pools(bigint[], timestamptz, bigint[]) is
    'End the expired holds of pools that the caller has locked.';

create function onceward.capacity_claim(
    p_pools text[], p_units text[], p_quantities bigint[], p_holder text,
    p_until timestamptz default null, p_for interval default null,
    out ids bigint[], out until timestamptz, out refusals jsonb)
    language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    org uuid := onceward.required_organization();
    moment timestamptz;
    pool onceward.capacity_pools;
    claimed bigint;
begin
    if cardinality(p_pools) > 1 or p_units[1] is not null then
        select c.ids, c.until, c.refusals into ids, until, refusals
        from onceward.capacity_claim_several(org, p_pools, p_units, p_quantities, p_holder, p_until, p_for) c;
        return;
    end if;
    -- Places of one pool, what everybody wants at the same moment: as few statements under the lock as can be.
    select * into pool from onceward.capacity_pools p
    where p.organization_id = org and p.key = p_pools[1] for no key update;
    -- Read after the lock: a buyer who waited judges expiry by the time at which it is his turn.
    moment := onceward.clock();
    until := coalesce(p_until, moment + p_for);
    if pool.id is null or pool.named or until <= moment
       or pool.held + pool.sold + p_quantities[1] > pool.capacity then
        -- Expired holds are in the way, or it is refused: the long way reaps and says why.
        select c.ids, c.until, c.refusals into ids, until, refusals
        from onceward.capacity_claim_several(org, p_pools, p_units, p_quantities, p_holder, p_until, p_for) c;
        return;
    end if;
    insert into onceward.capacity_claims
        (organization_id, pool_id, quantity, holder, state, expires_at, claimed_at, caused_by)
    values (org, pool.id, p_quantities[1], p_holder, case when until is null then 'sold' else 'held' end,
            until, moment, onceward.cause())
    returning id into claimed;
    ids := array[claimed];
end
$$;
comment on function onceward.capacity_claim(text[], text[], bigint[], text, timestamptz, interval) is
    'Claim all of these or none: held until a time, or sold when no time is given. A refusal writes nothing.';

create function onceward.capacity_claim_several(
    p_organization uuid, p_pools text[], p_units text[], p_quantities bigint[], p_holder text,
    p_until timestamptz, p_for interval,
    out ids bigint[], out until timestamptz, out refusals jsonb)
    language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    moment timestamptz;
    locked bigint[];
    pools bigint[];
    own bigint[];
    mistakes jsonb;
begin
    -- The one order in which pools are locked: by id.
    select array_agg(l.id) into locked
    from (
        select p.id from onceward.capacity_pools p
        where p.organization_id = p_organization and p.key = any (p_pools)
        order by p.id for no key update
    ) l;
    moment := onceward.clock();
    until := coalesce(p_until, moment + p_for);
    if until <= moment then
        raise exception 'a hold until % would have ended already: it is %', until, moment using errcode = 'OW003';
    end if;

    select array_agg(p.id order by w.n), array_agg(c.id order by w.n),
           jsonb_agg(jsonb_build_object('pool', w.key, 'unit', w.unit, 'reason',
               case when p.id is null then 'unknown pool' when w.unit is null then 'unit missing' else 'unknown unit' end)
               order by w.n)
               filter (where p.id is null or (p.named and u.unit is null) or (w.unit is not null and u.unit is null))
    into pools, own, mistakes
    from unnest(p_pools, p_units) with ordinality as w (key, unit, n)
    left join onceward.capacity_pools p on p.organization_id = p_organization and p.key = w.key
    left join onceward.capacity_units u on u.pool_id = p.id and u.unit = w.unit
    left join onceward.capacity_claims c
        on c.pool_id = p.id and c.unit = w.unit and c.unit is not null and c.holder = p_holder
        and (c.state = 'sold' or (c.state = 'held' and c.expires_at > moment));
    if mistakes is not null then
        refusals := mistakes;
        return;
    end if;

    perform onceward.capacity_reap_pools(locked, moment, '{}');
    refusals := (
        select onceward.capacity_judge(array_agg(w.pool), array_agg(w.unit), array_agg(w.quantity))
        from unnest(pools, p_units, p_quantities, own) as w (pool, unit, quantity, own)
        where w.own is null
    );
    if refusals is not null then
        return;
    end if;

    if array_remove(own, null) <> '{}' then
        update onceward.capacity_claims c
        set expires_at = case when until is null then null else greatest(c.expires_at, until) end,
            state = case when until is null then 'sold' else 'held' end
        where c.id = any (own) and c.state = 'held';
    end if;
    with made as (
        insert into onceward.capacity_claims
            (organization_id, pool_id, unit, quantity, holder, state, expires_at, claimed_at, caused_by)
        select p_organization, w.pool, w.unit, w.quantity, p_holder,
               case when until is null then 'sold' else 'held' end, until, moment, onceward.cause()
        from unnest(pools, p_units, p_quantities, own) as w (pool, unit, quantity, own)
        where w.own is null
        returning id
    )
    select coalesce(array_agg(id order by id), '{}') || array_remove(own, null) into ids from made;
end
$$;

create function onceward.capacity_renew(
    p_ids bigint[], p_until timestamptz default null, p_for interval default null,
    out until timestamptz, out refusals jsonb)
    language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    org uuid := onceward.required_organization();
    moment timestamptz;
    locked bigint[];
    mistakes jsonb;
begin
    select array_agg(l.id) into locked
    from (
        select p.id from onceward.capacity_pools p
        where p.organization_id = org
          and p.id in (select c.pool_id from onceward.capacity_claims c where c.id = any (p_ids))
        order by p.id for no key update
    ) l;
    moment := onceward.clock();
    until := coalesce(p_until, moment + p_for);
    if until <= moment then
        raise exception 'a hold until % would have ended already: it is %', until, moment using errcode = 'OW003';
    end if;

    select jsonb_agg(jsonb_build_object('claim', w.id, 'pool', p.key, 'unit', c.unit, 'reason',
               case when c.id is null then 'unknown claim' else 'released' end))
    into mistakes
    from unnest(p_ids) as w (id)
    left join onceward.capacity_claims c on c.id = w.id and c.organization_id = org
    left join onceward.capacity_pools p on p.id = c.pool_id
    where c.id is null or c.state = 'released';
    if mistakes is not null then
        refusals := mistakes;
        return;
    end if;

    -- Its own expired holds that nobody reaped are still counted as its own; only the reaped ones must find room.
    perform onceward.capacity_reap_pools(locked, moment, p_ids);
    refusals := (
        select onceward.capacity_judge(array_agg(c.pool_id), array_agg(c.unit), array_agg(c.quantity))
        from onceward.capacity_claims c
        where c.id = any (p_ids) and c.state = 'expired'
    );
    if refusals is not null then
        return;
    end if;
    update onceward.capacity_claims c
    set state = case when until is null then 'sold' else 'held' end,
        expires_at = case when until is null then null else greatest(c.expires_at, until) end,
        ended_at = null
    where c.id = any (p_ids) and c.state <> 'sold';
end
$$;
comment on function onceward.capacity_renew(bigint[], timestamptz, interval) is
    'Extend these claims, or sell them when no time is given, all or none. What has expired is taken again if still free.';

create function onceward.capacity_release(p_ids bigint[]) returns bigint[]
    language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    org uuid := onceward.required_organization();
    released bigint[];
begin
    perform 1 from onceward.capacity_pools p
    where p.organization_id = org
      and p.id in (select c.pool_id from onceward.capacity_claims c where c.id = any (p_ids))
    order by p.id for no key update;
    with given_back as (
        update onceward.capacity_claims c set state = 'released', ended_at = onceward.clock()
        where c.id = any (p_ids) and c.organization_id = org and c.state in ('held', 'sold')
        returning c.id
    )
    select coalesce(array_agg(id order by id), '{}') into released from given_back;
    return released;
end
$$;
comment on function onceward.capacity_release(bigint[]) is 'Give claims back; returns those that were still live.';

create function onceward.capacity_open(p_key text, p_capacity bigint, p_units text[] default null) returns bigint
    language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    org uuid := onceward.required_organization();
    pool bigint;
begin
    insert into onceward.capacity_pools (organization_id, key, capacity, named, caused_by)
    values (org, p_key, p_capacity, p_units is not null, onceward.cause())
    on conflict (organization_id, key) do nothing
    returning id into pool;
    if pool is not null then
        insert into onceward.capacity_units (pool_id, unit, organization_id)
        select pool, u, org from unnest(p_units) as u;
    end if;
    return pool;
end
$$;
comment on function onceward.capacity_open(text, bigint, text[]) is 'A new pool; null when its key is taken.';

create function onceward.capacity_resize(p_key text, p_capacity bigint) returns bigint
    language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    org uuid := onceward.required_organization();
    pool bigint;
begin
    select id into pool from onceward.capacity_pools
    where organization_id = org and key = p_key for no key update;
    if pool is null then
        return null;
    end if;
    perform onceward.capacity_reap_pools(array[pool], onceward.clock(), '{}');
    update onceward.capacity_pools
    set capacity = p_capacity, kept = case when held + sold > p_capacity then held + sold else 0 end
    where id = pool;
    return pool;
end
$$;
comment on function onceward.capacity_resize(text, bigint) is
    'Change a capacity. What was given out stays given, even above the new capacity; nothing new is until there is room.';

create function onceward.capacity_reap(p_pools bigint default 100) returns bigint
    language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    moment timestamptz := onceward.clock();
    locked bigint[];
begin
    -- Skips what is being claimed from: the claim reaps by itself.
    select array_agg(l.id) into locked
    from (
        select p.id from onceward.capacity_pools p
        where p.id in (select c.pool_id from onceward.capacity_claims c
                       where c.state = 'held' and c.expires_at <= moment
                       order by c.expires_at limit p_pools)
        order by p.id for no key update skip locked
    ) l;
    if locked is null then
        return 0;
    end if;
    return onceward.capacity_reap_pools(locked, moment, '{}');
end
$$;
comment on function onceward.capacity_reap(bigint) is
    'Housekeeping over all organizations: nothing depends on it, it only keeps claims from finding long queues of expired holds.';

revoke all on function onceward.capacity_count_claim(), onceward.capacity_count_changes(), onceward.capacity_refuse_delete(),
    onceward.capacity_judge(bigint[], text[], bigint[]),
    onceward.capacity_reap_pools(bigint[], timestamptz, bigint[]),
    onceward.capacity_claim(text[], text[], bigint[], text, timestamptz, interval),
    onceward.capacity_claim_several(uuid, text[], text[], bigint[], text, timestamptz, interval),
    onceward.capacity_renew(bigint[], timestamptz, interval),
    onceward.capacity_release(bigint[]),
    onceward.capacity_open(text, bigint, text[]),
    onceward.capacity_resize(text, bigint),
    onceward.capacity_reap(bigint) from public;
grant execute on function
    onceward.capacity_claim(text[], text[], bigint[], text, timestamptz, interval),
    onceward.capacity_renew(bigint[], timestamptz, interval),
    onceward.capacity_release(bigint[]),
    onceward.capacity_open(text, bigint, text[]),
    onceward.capacity_resize(text, bigint) to onceward_app, onceward_engine;
grant execute on function onceward.capacity_reap(bigint) to onceward_engine;

-- What an event caused is found by its cause: `onceward trace` must not read a whole table for it.

create index capacity_pools_caused_by on onceward.capacity_pools (caused_by) where caused_by is not null;
