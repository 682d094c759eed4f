-- Show the audit log in the form that SQL scripts of clinics use. Reading uses the reader's own rights; inserting is
-- allowed.
create or replace view audit.audit_logs with (security_invoker = true) as
    select id, entity_type as table_name, action as operation, changes as row_data,
           user_id as changed_by, organization_id as clinic_id, at as changed_at, entity_id, actor, reason, metadata
    from onceward.audit_log;

grant select on audit.audit_logs to onceward_engine, onceward_app;
grant insert on audit.audit_logs to onceward_engine, onceward_app, onceward_sql_worker;
