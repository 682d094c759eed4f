-- Allow only one change of a system metric: erasing the person. Everything else is append-only.
create or replace function onceward.metrics_erase_only() returns trigger
    language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    if (new.id, new.event_type, new.severity, new.subject, new.job_id, new.timestamp) is not distinct from
       (old.id, old.event_type, old.severity, old.subject, old.job_id, old.timestamp)
       and (new.user_id is null or new.user_id is not distinct from old.user_id)
       and (new.metadata = '{"erased": true}' or new.metadata = old.metadata)
    then
        return new;
    end if;
    raise exception 'onceward.system_metrics is append-only: an entry can be erased, not changed'
        using errcode = 'insufficient_privilege';
end
$$;

create or replace trigger erase_only before update on onceward.system_metrics
    for each row execute function onceward.metrics_erase_only();

alter table onceward.system_metrics enable always trigger erase_only;
