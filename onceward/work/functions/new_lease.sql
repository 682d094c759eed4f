-- Return a random number for a new lease.
create or replace function onceward.new_lease() returns bigint
    language sql volatile set search_path = pg_catalog, pg_temp as $$
select ('x' || left(replace(gen_random_uuid()::text, '-', ''), 15))::bit(60)::bigint + 1
$$;
