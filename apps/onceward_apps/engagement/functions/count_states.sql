-- Append how a statement changed the number of users in each state, and of those who cannot be reached.
create or replace function engagement.count_states() returns trigger
    language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if tg_op = 'INSERT' then
        insert into engagement.state_counts (organization_id, state, users)
        select n.organization_id, x.name, count(*) from new_rows n, engagement.counted(n.state, n.unreachable_at) x (name) group by 1, 2;
    elsif tg_op = 'DELETE' then
        insert into engagement.state_counts (organization_id, state, users)
        select o.organization_id, x.name, -count(*) from old_rows o, engagement.counted(o.state, o.unreachable_at) x (name) group by 1, 2;
    else
        insert into engagement.state_counts (organization_id, state, users)
        select d.organization_id, d.name, sum(d.users) from (
            select n.organization_id, x.name, 1 as users from new_rows n, engagement.counted(n.state, n.unreachable_at) x (name)
            union all
            select o.organization_id, x.name, -1 from old_rows o, engagement.counted(o.state, o.unreachable_at) x (name)
        ) d group by 1, 2 having sum(d.users) <> 0;
    end if;
    return null;
end
$$;
revoke all on function engagement.count_states() from public;

create or replace trigger count_inserted after insert on engagement.user_engagement_states
    referencing new table as new_rows for each statement execute function engagement.count_states();
create or replace trigger count_updated after update on engagement.user_engagement_states
    referencing old table as old_rows new table as new_rows for each statement execute function engagement.count_states();
create or replace trigger count_deleted after delete on engagement.user_engagement_states
    referencing old table as old_rows for each statement execute function engagement.count_states();
