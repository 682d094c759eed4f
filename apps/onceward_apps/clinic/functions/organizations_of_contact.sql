-- Return the clinics that know a number, for a person who writes STOP to a number that belongs to no clinic.
create or replace function clinic.organizations_of_contact(p_number text) returns setof uuid
    language sql stable security definer set search_path = pg_catalog, pg_temp as $$
    select organization_id from clinic.contacts where number = p_number
$$;
revoke all on function clinic.organizations_of_contact(text) from public;
grant execute on function clinic.organizations_of_contact(text) to onceward_app, onceward_engine;
