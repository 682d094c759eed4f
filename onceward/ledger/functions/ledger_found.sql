-- Return the journal of this key if it has the same body, and raise OW104 if it has another. Null: the key is new.
create or replace function onceward.ledger_found(p_organization uuid, p_key text, p_body bytea) returns bigint
    language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    found_id bigint;
    found_body bytea;
begin
    select id, body into found_id, found_body from onceward.ledger_journals
    where organization_id = p_organization and key = p_key;
    if found_id is not null and found_body <> p_body then
        raise exception 'key % was used for journal % with another body', p_key, found_id using errcode = 'OW104';
    end if;
    return found_id;
end
$$;

comment on function onceward.ledger_found(uuid, text, bytea) is
    'Return the journal of this key if it has the same body, and raise OW104 if it has another. Null: the key is new.';
revoke all on function onceward.ledger_found(uuid, text, bytea) from public;
