-- Note the transaction that changed a row, so that the CRM sync reads changes in commit order, whoever made them.
create or replace function learning.stamp_change() returns trigger
    language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    new.changed_by := pg_current_xact_id();
    new.updated_at := onceward.now();
    return new;
end
$$;

create or replace trigger stamp_change before insert or update on learning.users
    for each row execute function learning.stamp_change();
create or replace trigger stamp_change before insert or update on learning.enrollments
    for each row execute function learning.stamp_change();
