-- Return since when this server is the primary: since its start, or since its promotion if workers saw that later.
create or replace function onceward.current_timeline() returns int language sql volatile as $$
    select ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::int
$$;

create or replace function onceward.server_since() returns timestamptz language sql volatile as $$
    select case when t.timeline is null then pg_postmaster_start_time()
                when t.timeline = onceward.current_timeline() then greatest(pg_postmaster_start_time(), t.since)
                else clock_timestamp()      -- promoted, and no worker has noted it yet
           end
      from (select) one left join onceward.server_timeline t on true
$$;

create or replace function onceward.note_timeline() returns void language plpgsql as $$
declare
    v_timeline int := onceward.current_timeline();
begin
    if not exists (select from onceward.server_timeline where timeline = v_timeline) then
        insert into onceward.server_timeline as s (timeline, since) values (v_timeline, '-infinity')
        on conflict (one) do update set timeline = excluded.timeline, since = clock_timestamp()
         where s.timeline <> excluded.timeline;
    end if;
end
$$;
