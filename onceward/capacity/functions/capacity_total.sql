-- Return the totals of all pools of a group. Holds past their time do not count as held, as if they were reaped. Pools
-- without a limit add nothing to the capacity. An unknown group has nothing. Row-level security applies to the caller.
create or replace function onceward.capacity_total(
    p_organization uuid, p_key text, out capacity bigint, out held bigint, out sold bigint)
    language plpgsql stable as $$
begin
    select coalesce(sum(t.capacity), 0), coalesce(sum(t.sold), 0),
           coalesce(sum(t.held), 0) - coalesce((
               select sum(c.quantity) from onceward.capacity_claims c
               where c.group_id = min(t.group_id) and c.state = 'held' and c.expires_at <= onceward.now()), 0)
    into capacity, sold, held
    from onceward.capacity_totals t
    where t.group_id = (select g.id from onceward.capacity_groups g
                        where g.organization_id = p_organization and g.key = p_key);
end
$$;

comment on function onceward.capacity_total(uuid, text) is
    'Return the totals of all pools of a group. Holds past their time do not count as held.';

revoke all on function onceward.capacity_total(uuid, text) from public;
grant execute on function onceward.capacity_total(uuid, text) to onceward_app, onceward_engine;
