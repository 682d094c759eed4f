-- Who did what to which entity. Appended in the transaction that did it, chained afterwards by the sealer.

create table onceward.audit_log (
    -- The frame: never changes.
    id bigint primary key,
    organization_id uuid default onceward.organization(),
    at timestamptz not null,
    action text not null check (action <> ''),
    entity_type text not null,
    caused_by bigint,
    -- Who and whom: may name a person, so it can be erased as a whole.
    actor text not null,
    user_id text,
    entity_id text,
    who_salt bytea,
    who_hash bytea not null,
    -- The content: likewise.
    reason text,
    changes jsonb,
    metadata jsonb,
    content_salt bytea,
    content_hash bytea not null,
    erased_at timestamptz
);
comment on table onceward.audit_log is
    'Append-only. A part whose salt is null has been erased; its hash stays, and without the salt tells nothing.';
create index audit_log_entity on onceward.audit_log (entity_type, entity_id);
create index audit_log_organization on onceward.audit_log (organization_id, id);
create index audit_log_caused_by on onceward.audit_log (caused_by) where caused_by is not null;
select onceward.protect('onceward.audit_log');
revoke insert, update, delete on onceward.audit_log from onceward_app;
revoke update, delete on onceward.audit_log from onceward_engine;
grant insert (organization_id, action, entity_type, actor, user_id, entity_id, reason, changes, metadata)
    on onceward.audit_log to onceward_app, onceward_sql_worker;
-- Erasing is the one change there is; what else an UPDATE might do is refused below.
grant update (actor, user_id, entity_id, who_salt, reason, changes, metadata, content_salt, erased_at)
    on onceward.audit_log to onceward_engine;
create policy sql_worker on onceward.audit_log for insert to onceward_sql_worker with check (true);

create table onceward.audit_pending (
    id bigint primary key                  -- of audit_log
) with (autovacuum_vacuum_scale_factor = 0.02);
comment on table onceward.audit_pending is
    'Entries the sealer has still to chain: taken as they become visible, so that no order of commits loses one.';
grant select, delete on onceward.audit_pending to onceward_engine;

create table onceward.audit_seals (
    number bigint primary key check (number > 0),
    ids bigint[] not null,
    hashes bytea not null,                 -- 32 bytes for each id
    previous bytea not null,
    hash bytea not null,
    sealed_at timestamptz not null default clock_timestamp()
);
comment on table onceward.audit_seals is 'Links of the chain: hash = sha256(previous, number, ids, hashes of the entries).';
grant select, insert on onceward.audit_seals to onceward_engine;

create function onceward.audit_stamp() returns trigger
    language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    new.id := nextval('onceward.ids');
    new.at := onceward.now();
    new.caused_by := onceward.cause();
    new.erased_at := null;
    new.who_salt := uuid_send(gen_random_uuid());
    new.who_hash := sha256(new.who_salt || convert_to(jsonb_build_object(
        'actor', new.actor, 'user_id', new.user_id, 'entity_id', new.entity_id)::text, 'UTF8'));
    new.content_salt := uuid_send(gen_random_uuid());
    new.content_hash := sha256(new.content_salt || convert_to(jsonb_build_object(
        'reason', new.reason, 'changes', new.changes, 'metadata', new.metadata)::text, 'UTF8'));
    insert into onceward.audit_pending (id) values (new.id);
    return new;
end
$$;
revoke all on function onceward.audit_stamp() from public;
create trigger stamp before insert on onceward.audit_log for each row execute function onceward.audit_stamp();

create function onceward.refuse_change() returns trigger
    language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    raise exception '%.% is append-only: % is not allowed', tg_table_schema, tg_table_name, lower(tg_op)
        using errcode = 'insufficient_privilege';
end
$$;

create function onceward.audit_erase_only() returns trigger
    language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    if (new.id, new.organization_id, new.at, new.action, new.entity_type, new.caused_by, new.who_hash, new.content_hash)
            is not distinct from
       (old.id, old.organization_id, old.at, old.action, old.entity_type, old.caused_by, old.who_hash, old.content_hash)
       and new.erased_at is not null
       and ((new.actor, new.user_id, new.entity_id, new.who_salt)
                is not distinct from (old.actor, old.user_id, old.entity_id, old.who_salt)
            or (new.actor = 'erased' and num_nonnulls(new.user_id, new.entity_id, new.who_salt) = 0))
       and ((new.reason, new.changes, new.metadata, new.content_salt)
                is not distinct from (old.reason, old.changes, old.metadata, old.content_salt)
            or num_nonnulls(new.reason, new.changes, new.metadata, new.content_salt) = 0)
    then
        return new;
    end if;
    raise exception 'onceward.audit_log is append-only: an entry can be erased, not changed'
        using errcode = 'insufficient_privilege';
end
$$;

create trigger erase_only before update on onceward.audit_log
    for each row execute function onceward.audit_erase_only();
create trigger no_delete before delete on onceward.audit_log
    for each row execute function onceward.refuse_change();
create trigger no_truncate before truncate on onceward.audit_log
    for each statement execute function onceward.refuse_change();
create trigger no_change before update or delete on onceward.audit_seals
    for each row execute function onceward.refuse_change();
create trigger no_truncate before truncate on onceward.audit_seals
    for each statement execute function onceward.refuse_change();
-- Also in a session that plays a replica.
alter table onceward.audit_log enable always trigger erase_only;
alter table onceward.audit_log enable always trigger no_delete;
alter table onceward.audit_log enable always trigger no_truncate;
alter table onceward.audit_seals enable always trigger no_change;
alter table onceward.audit_seals enable always trigger no_truncate;

-- The shape that SQL scripts of clinics know: read through the reader's own rights, and one may insert into it.
create schema audit;
grant usage on schema audit to onceward_engine, onceward_app, onceward_sql_worker;
create view audit.audit_logs with (security_invoker = true) as
    select id, entity_type as table_name, action as operation, changes as row_data,
           user_id as changed_by, organization_id as clinic_id, at as changed_at, entity_id, actor, reason, metadata
    from onceward.audit_log;
grant select on audit.audit_logs to onceward_engine, onceward_app;
grant insert on audit.audit_logs to onceward_engine, onceward_app, onceward_sql_worker;

create function audit.insert_audit_log() returns trigger
    language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    insert into onceward.audit_log (organization_id, action, entity_type, entity_id, actor, user_id, reason, changes, metadata)
    values (coalesce(new.clinic_id, onceward.organization()), new.operation, new.table_name, new.entity_id,
            coalesce(new.actor, 'user:' || new.changed_by, 'sql:' || session_user), new.changed_by,
            new.reason, new.row_data, new.metadata);
    return new;
end
$$;
create trigger insert_audit_log instead of insert on audit.audit_logs
    for each row execute function audit.insert_audit_log();
