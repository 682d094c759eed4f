-- What went wrong, or nearly, in the engine itself. Written by the engine, read by instance admins. The only
-- change that is allowed erases a person.
-- No foreign keys: the record outlives what it is about.

create table onceward.system_metrics (
    id uuid primary key default gen_random_uuid(),
    event_type text not null check (event_type in ('job_rollback', 'orphaned_job_recovery', 'concurrency_limit_hit',
        'worker_timeout', 'rpc_retry_exhausted', 'duplicate_job_detected')),
    severity text not null check (severity in ('info', 'warn', 'error', 'fatal')),
    user_id uuid,
    course_id uuid,
    job_id text,
    metadata jsonb not null default '{}',
    timestamp timestamptz not null default onceward.now()
);
create index system_metrics_event_type on onceward.system_metrics (event_type, timestamp);
create index system_metrics_severity on onceward.system_metrics (severity, timestamp);
create index system_metrics_timestamp on onceward.system_metrics (timestamp);
create index system_metrics_course on onceward.system_metrics (course_id) where course_id is not null;

alter table onceward.system_metrics enable row level security;
create policy engine on onceward.system_metrics for all to onceward_engine using (true) with check (true);
grant select, insert on onceward.system_metrics to onceward_engine;
grant update (user_id, metadata) on onceward.system_metrics to onceward_engine;

create function onceward.metrics_erase_only() returns trigger
    language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    if (new.id, new.event_type, new.severity, new.course_id, new.job_id, new.timestamp) is not distinct from
       (old.id, old.event_type, old.severity, old.course_id, old.job_id, old.timestamp)
       and (new.user_id is null or new.user_id is not distinct from old.user_id)
       and (new.metadata = '{"erased": true}' or new.metadata = old.metadata)
    then
        return new;
    end if;
    raise exception 'onceward.system_metrics is append-only: an entry can be erased, not changed'
        using errcode = 'insufficient_privilege';
end
$$;
create trigger erase_only before update on onceward.system_metrics
    for each row execute function onceward.metrics_erase_only();
create trigger no_delete before delete on onceward.system_metrics
    for each row execute function onceward.refuse_change();
create trigger no_truncate before truncate on onceward.system_metrics
    for each statement execute function onceward.refuse_change();
alter table onceward.system_metrics enable always trigger erase_only;
alter table onceward.system_metrics enable always trigger no_delete;
alter table onceward.system_metrics enable always trigger no_truncate;
