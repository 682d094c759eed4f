-- Append how a statement changed the number of users who want no messages.
create or replace function engagement.count_opt_outs() returns trigger
    language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if tg_op = 'INSERT' then
        insert into engagement.state_counts (organization_id, state, users)
        select n.organization_id, 'opted_out', count(*) from new_rows n where n.reengagement_opt_out group by 1;
    elsif tg_op = 'DELETE' then
        insert into engagement.state_counts (organization_id, state, users)
        select o.organization_id, 'opted_out', -count(*) from old_rows o where o.reengagement_opt_out group by 1;
    else
        insert into engagement.state_counts (organization_id, state, users)
        select d.organization_id, 'opted_out', sum(d.users) from (
            select n.organization_id, 1 as users from new_rows n where n.reengagement_opt_out
            union all
            select o.organization_id, -1 from old_rows o where o.reengagement_opt_out
        ) d group by 1 having sum(d.users) <> 0;
    end if;
    return null;
end
$$;
revoke all on function engagement.count_opt_outs() from public;

create or replace trigger count_inserted after insert on engagement.user_profiles
    referencing new table as new_rows for each statement execute function engagement.count_opt_outs();
create or replace trigger count_updated after update on engagement.user_profiles
    referencing old table as old_rows new table as new_rows for each statement execute function engagement.count_opt_outs();
create or replace trigger count_deleted after delete on engagement.user_profiles
    referencing old table as old_rows for each statement execute function engagement.count_opt_outs();
