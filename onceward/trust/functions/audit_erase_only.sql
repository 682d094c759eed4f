-- Allow only one change of an audit entry: erasing what may name a person. The hashes stay, so the chain stays verifiable.
create or replace function onceward.audit_erase_only() returns trigger
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

create or replace trigger erase_only before update on onceward.audit_log
    for each row execute function onceward.audit_erase_only();

-- The trigger also fires in a session with session_replication_role = replica.
alter table onceward.audit_log enable always trigger erase_only;
