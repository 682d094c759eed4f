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

create function onceward.limit_scope(p_key text, p_organization uuid) returns uuid
    language sql stable security definer set search_path = pg_catalog, pg_temp as $$
-- Whose slots a key means: each organization has its own, and a limit in onceward.limits is shared by all.
    select case when p_organization is null or exists (select from onceward.limits l where l.name = p_key)
                then '00000000-0000-0000-0000-000000000000' else p_organization end
$$;

create function onceward.limit_take(p_scope uuid, p_key text, p_at_most int, p_work bigint) returns boolean
    language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
-- One slot for this work, or false. Never waits for another taker: a slot that one is taking counts as taken.
declare
    v record;
begin
    if exists (select from onceward.limit_slots s where s.organization_id = p_scope and s.key = p_key and s.work_id = p_work) then
        return true;
    end if;
    if (select count(*) from onceward.limit_slots s
         where s.organization_id = p_scope and s.key = p_key and s.slot <= p_at_most) < p_at_most then
        insert into onceward.limit_slots (organization_id, key, slot, work_id)
        select p_scope, p_key, n, 0 from generate_series(1, p_at_most) n
        on conflict (organization_id, key, slot) do nothing;
    end if;
    for v in
        with seen as (
            select s.slot, s.work_id,
                   exists (select from onceward.work w where w.id = s.work_id and w.dead_reason is null) as held
              from onceward.limit_slots s where s.organization_id = p_scope and s.key = p_key
        )
        -- A number counts only if it and all that are held above it fit: a limit that has fallen admits nobody until
        -- enough have ended, whichever numbers they hold.
        select c.slot, c.work_id from seen c
         where not c.held and c.slot + (select count(*) from seen a where a.held and a.slot > c.slot) <= p_at_most
         order by random()
    loop
        -- Only from the owner that was seen to have ended: whoever came in between is not looked at, but not replaced.
        perform from onceward.limit_slots s
          where s.organization_id = p_scope and s.key = p_key and s.slot = v.slot and s.work_id = v.work_id
            for update skip locked;
        if found then
            update onceward.limit_slots s set work_id = p_work, taken_at = clock_timestamp()
             where s.organization_id = p_scope and s.key = p_key and s.slot = v.slot;
            return true;
        end if;
    end loop;
    return false;
end
$$;

create function onceward.limit_count(p_key text) returns int
    language sql stable security definer set search_path = pg_catalog, pg_temp as $$
-- How many slots are held under a key of the organization acted for, or under a limit of the instance.
    select count(*)::int from onceward.limit_slots s
     where s.organization_id = onceward.limit_scope(p_key, onceward.organization()) and s.key = p_key
       and exists (select from onceward.work w where w.id = s.work_id and w.dead_reason is null)
$$;

create function onceward.limit_state(
    p_name text, out at_most int, out held int, out reason text, out changed_at timestamptz
) language sql stable security definer set search_path = pg_catalog, pg_temp as $$
-- A limit of the instance, for everybody who is refused by it: how much it allows, how much is used, why it changed last.
    select l.at_most,
           (select count(*)::int from onceward.limit_slots s
             where s.organization_id = '00000000-0000-0000-0000-000000000000' and s.key = l.name
               and exists (select from onceward.work w where w.id = s.work_id and w.dead_reason is null)),
           l.reason, nullif(l.changed_at, '-infinity')
      from onceward.limits l where l.name = p_name
$$;

create function onceward.limit_reserve(
    p_work bigint, p_keys text[], p_at_most int[], out full_key text, out at_most int, out held int
) language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
-- A slot under every key, or none: then full_key says which had no room. A null limit is the one in onceward.limits.
-- Keys are those of the work's organization. The app role reserves for work of the organization it acts for only.
declare
    v_organization uuid;
    v_scope uuid;
begin
    select w.organization_id into v_organization from onceward.work w where w.id = p_work and w.dead_reason is null;
    if not found or (current_setting('role') in ('onceward_app', 'onceward_sql_worker')
                     and v_organization is distinct from onceward.organization()) then
        raise exception 'work % is not unfinished work of this organization: reserve in the transaction that enqueues it', p_work
            using errcode = '22023';
    end if;
    for i in 1 .. cardinality(p_keys) loop
        at_most := coalesce(p_at_most[i], (select l.at_most from onceward.limits l where l.name = p_keys[i]));
        if at_most is null then
            raise exception 'limit % is not known: give the number of slots, or set it in onceward.limits', p_keys[i]
                using errcode = '22023';
        end if;
        v_scope := onceward.limit_scope(p_keys[i], v_organization);
        if not onceward.limit_take(v_scope, p_keys[i], at_most, p_work) then
            full_key := p_keys[i];
            held := (select count(*) from onceward.limit_slots s
                      where s.organization_id = v_scope and s.key = p_keys[i]
                        and exists (select from onceward.work w where w.id = s.work_id and w.dead_reason is null));
            update onceward.limit_slots s set work_id = 0 where s.work_id = p_work;
            return;
        end if;
    end loop;
end
$$;

revoke all on function onceward.limit_scope(text, uuid), onceward.limit_take(uuid, text, int, bigint),
    onceward.limit_count(text), onceward.limit_state(text), onceward.limit_reserve(bigint, text[], int[]) from public;
grant execute on function onceward.limit_count(text), onceward.limit_state(text), onceward.limit_reserve(bigint, text[], int[])
    to onceward_app, onceward_engine;

-- How often somebody may do something. One row for each who did it lately, in one statement, over all nodes.

-- Unlogged: what a crash forgets costs a minute of patience, not data.
create unlogged table onceward.rates (
    key bytea primary key,                 -- sha256 of what is limited and for whom
    full_at timestamptz not null           -- when all of the allowance will be there again; past: nothing is used up
) with (fillfactor = 70);
grant select, insert, update, delete on onceward.rates to onceward_engine;
