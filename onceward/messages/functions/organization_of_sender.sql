-- Return the organization that has proven a phone number, for a webhook of a source that serves several organizations.
create or replace function onceward.organization_of_sender(p_kind text, p_identifier text) returns uuid
    language sql stable security definer set search_path = pg_catalog, pg_temp as $$
    select organization_id from onceward.senders where kind = p_kind and identifier = p_identifier
$$;
revoke all on function onceward.organization_of_sender(text, text) from public;
grant execute on function onceward.organization_of_sender(text, text) to onceward_app, onceward_engine;
