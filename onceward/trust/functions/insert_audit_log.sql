-- Turn an insert into the view audit.audit_logs into an entry of the audit log.
create or replace function audit.insert_audit_log() returns trigger
    language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    insert into onceward.audit_log (organization_id, action, entity_type, entity_id, actor, user_id, reason, changes, metadata)
    values (coalesce(new.clinic_id, onceward.organization()), new.operation, new.table_name, new.entity_id,
            coalesce(new.actor, 'user:' || new.changed_by, 'sql:' || session_user), new.changed_by,
            new.reason, new.row_data, new.metadata);
    return new;
end
$$;

create or replace trigger insert_audit_log instead of insert on audit.audit_logs
    for each row execute function audit.insert_audit_log();
