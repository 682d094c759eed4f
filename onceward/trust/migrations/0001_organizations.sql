-- Who may see what: organizations, the clock, the one sequence of ids, and `protect` for tenant tables.
-- The database roles are made by roles.sql, which runs before.

grant usage on schema onceward to onceward_engine, onceward_app, onceward_sql_worker;

create sequence onceward.ids;
comment on sequence onceward.ids is 'One sequence for events, jobs, messages, deliveries, runs and workflows: an id names one thing.';
grant usage on sequence onceward.ids to onceward_engine, onceward_app, onceward_sql_worker;

create function onceward.now() returns timestamptz
    language sql stable parallel safe as 'select now()';
comment on function onceward.now() is 'Business time. Tests replace its body to move the clock of one database.';

create function onceward.organization() returns uuid
    language sql stable parallel safe
    as $$select nullif(current_setting('onceward.organization', true), '')::uuid$$;
comment on function onceward.organization() is 'The organization the transaction acts for; null for the platform itself.';

create function onceward.cause() returns bigint
    language sql stable parallel safe
    as $$select nullif(split_part(current_setting('onceward.cause', true), ':', 2), '')::bigint$$;
comment on function onceward.cause() is 'The id of what caused this transaction; null when a person or an unnumbered request did.';

create function onceward.person_hash(reference text) returns text
    language sql immutable parallel safe
    as $$select encode(sha256(convert_to(lower(btrim(reference)), 'UTF8')), 'hex')$$;
comment on function onceward.person_hash(text) is
    'What stays of an address or id after an erasure: enough to recognise it again, not enough to read it.';

create function onceward.protect(target regclass) returns void
    language plpgsql as $$
begin
    execute format('alter table %s enable row level security', target);
    execute format(
        'create policy own_rows on %s for all to onceward_app
            using (organization_id is not distinct from (select onceward.organization()))
            with check (organization_id is not distinct from (select onceward.organization()))', target);
    execute format('create policy engine on %s for all to onceward_engine using (true) with check (true)', target);
    execute format('grant select, insert, update, delete on %s to onceward_app, onceward_engine', target);
end
$$;
comment on function onceward.protect(regclass) is
    'Make a table with organization_id visible to its organization only. Every tenant table calls it in its migration.';
revoke all on function onceward.protect(regclass) from public;

create table onceward.organizations (
    organization_id uuid primary key default gen_random_uuid(),
    slug text not null unique check (slug ~ '^[a-z0-9][a-z0-9-]{0,62}$'),
    name text not null,
    created_at timestamptz not null default onceward.now()
);
select onceward.protect('onceward.organizations');
revoke insert, update, delete on onceward.organizations from onceward_app;
