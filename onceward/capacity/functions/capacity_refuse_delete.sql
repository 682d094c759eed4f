-- Refuse to delete claims with OW002. Claims are released, never deleted.
create or replace function onceward.capacity_refuse_delete() returns trigger
    language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    raise exception 'claims are released, never deleted: use onceward.capacity_release' using errcode = 'OW002';
end
$$;

create or replace trigger never_deleted before delete or truncate on onceward.capacity_claims
    for each statement execute function onceward.capacity_refuse_delete();

revoke all on function onceward.capacity_refuse_delete() from public;
