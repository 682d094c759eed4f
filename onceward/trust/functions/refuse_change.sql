-- Refuse every change of the audit log, its seals and the system metrics that the table is not meant to allow.
create or replace function onceward.refuse_change() returns trigger
    language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    raise exception '%.% is append-only: % is not allowed', tg_table_schema, tg_table_name, lower(tg_op)
        using errcode = 'insufficient_privilege';
end
$$;

create or replace trigger no_delete before delete on onceward.audit_log
    for each row execute function onceward.refuse_change();

create or replace trigger no_truncate before truncate on onceward.audit_log
    for each statement execute function onceward.refuse_change();

create or replace trigger no_change before update or delete on onceward.audit_seals
    for each row execute function onceward.refuse_change();

create or replace trigger no_truncate before truncate on onceward.audit_seals
    for each statement execute function onceward.refuse_change();

alter table onceward.audit_log enable always trigger no_delete;
alter table onceward.audit_log enable always trigger no_truncate;

alter table onceward.audit_seals enable always trigger no_change;
alter table onceward.audit_seals enable always trigger no_truncate;

create or replace trigger no_delete before delete on onceward.system_metrics
    for each row when (old.timestamp > now() - interval '30 days') execute function onceward.refuse_change();

create or replace trigger no_truncate before truncate on onceward.system_metrics
    for each statement execute function onceward.refuse_change();

alter table onceward.system_metrics enable always trigger no_delete;
alter table onceward.system_metrics enable always trigger no_truncate;
