-- End the expired holds of pools that the caller has locked.
create or replace function onceward.capacity_reap_pools(p_pools bigint[], p_moment timestamptz, p_except bigint[]) returns bigint
    language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    ended bigint;
begin
    -- Look before the update: an update without rows still runs its trigger, and usually there are no rows.
    if not exists (select from onceward.capacity_claims
                   where pool_id = any (p_pools) and state = 'held' and expires_at <= p_moment) then
        return 0;
    end if;
    update onceward.capacity_claims set state = 'expired', ended_at = p_moment
    where pool_id = any (p_pools) and state = 'held' and expires_at <= p_moment and id <> all (p_except);
    get diagnostics ended = row_count;
    return ended;
end
$$;

comment on function onceward.capacity_reap_pools(bigint[], timestamptz, bigint[]) is
    'End the expired holds of pools that the caller has locked.';

revoke all on function onceward.capacity_reap_pools(bigint[], timestamptz, bigint[]) from public;
