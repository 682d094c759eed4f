-- Return the organizations that know one of these spellings of a number, for a webhook of a source that serves all of them.
create or replace function engagement.organizations_of(p_numbers text[]) returns setof uuid
    language sql stable security definer set search_path = pg_catalog, pg_temp as $$
    select distinct p.organization_id from engagement.user_profiles p where p.whatsapp_jid = any(p_numbers)
$$;
revoke all on function engagement.organizations_of(text[]) from public;
grant execute on function engagement.organizations_of(text[]) to onceward_app, onceward_engine;
