-- Return the names under which a user is counted.
create or replace function engagement.counted(p_state text, p_unreachable_at timestamptz) returns setof text
    language sql immutable set search_path = pg_catalog, pg_temp as $$
    select p_state union all select 'unreachable' where p_unreachable_at is not null
$$;
revoke all on function engagement.counted(text, timestamptz) from public;
