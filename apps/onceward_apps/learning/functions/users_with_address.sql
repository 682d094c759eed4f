-- Return the users with an email address in all organizations. A sign-in page knows the address only; the mail decides.
create or replace function learning.users_with_address(p_email text) returns table (user_id uuid, organization_id uuid)
    language sql stable security definer set search_path = pg_catalog, pg_temp as $$
    select u.id, u.organization_id from learning.users u
     where lower(u.email) = lower(p_email) and u.erased_at is null order by u.created_at limit 20
$$;

revoke all on function learning.users_with_address(text) from public;
grant execute on function learning.users_with_address(text) to onceward_app, onceward_engine;
