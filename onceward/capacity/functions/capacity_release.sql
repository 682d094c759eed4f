-- Release claims, and return the ids of those that were still live.
create or replace function onceward.capacity_release(p_ids bigint[]) returns bigint[]
    language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    org uuid := onceward.required_organization();
    released bigint[];
begin
    perform 1 from onceward.capacity_pools p
    where p.organization_id = org
      and p.id in (select c.pool_id from onceward.capacity_claims c where c.id = any (p_ids))
    order by p.id for no key update;
    with given_back as (
        update onceward.capacity_claims c set state = 'released', ended_at = onceward.clock()
        where c.id = any (p_ids) and c.organization_id = org and c.state in ('held', 'sold')
        returning c.id
    )
    select coalesce(array_agg(id order by id), '{}') into released from given_back;
    return released;
end
$$;

comment on function onceward.capacity_release(bigint[]) is
    'Release claims, and return the ids of those that were still live.';
revoke all on function onceward.capacity_release(bigint[]) from public;

grant execute on function onceward.capacity_release(bigint[]) to onceward_app, onceward_engine;
