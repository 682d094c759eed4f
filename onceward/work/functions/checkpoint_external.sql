-- Save how far a job has come, fenced by the lease; the next attempt gets it as `cursor`.
create or replace function onceward.checkpoint_external(p_id bigint, p_lease bigint, p_cursor jsonb, p_all boolean, p_organization uuid)
    returns void language plpgsql as $$
begin
    perform onceward.external_held(p_id, p_lease, p_all, p_organization);
    if p_cursor is null or length(p_cursor::text) > 65536 then
        raise exception 'cursor must be JSON of at most 65536 characters, not %', coalesce(length(p_cursor::text)::text, 'null')
            using errcode = '22023';
    end if;
    -- Of a job that got new arguments nothing is kept: it begins again with them.
    insert into onceward.checkpoints as c (work_id, organization_id, cursor)
    select w.id, w.organization_id, p_cursor from onceward.work w
     where w.id = p_id and w.lease = p_lease and w.replaced_under is distinct from w.lease
    on conflict (work_id) do update set cursor = excluded.cursor, saved_at = clock_timestamp();
end
$$;
