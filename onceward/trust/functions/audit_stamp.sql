-- Fill in the id, the time, the cause and the hashes of a new audit entry, so that no writer can choose them. The sealer
-- finds the entry in audit_pending.
create or replace function onceward.audit_stamp() returns trigger
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

create or replace trigger stamp before insert on onceward.audit_log for each row execute function onceward.audit_stamp();
