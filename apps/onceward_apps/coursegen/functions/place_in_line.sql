-- Return the place of a course of the current organization in the waiting line, the length of the line, and how long it will
-- probably wait: as many rounds as the global limit needs, each as long as the last 20 courses took on average.
create or replace function coursegen.place_in_line(
    p_course uuid, p_share_s int, out place int, out waiting int, out estimated_s int
) language sql stable security definer set search_path = pg_catalog, pg_temp as $$
    with line as materialized (select * from coursegen.waiting_line(p_share_s)),
    recent as (
        select c.finished_at - c.begun_at as took from coursegen.courses c
         where c.status = 'completed' and c.begun_at is not null order by c.finished_at desc limit 20
    )
    select l.place::int, (select count(*)::int from line),
           (ceil(l.place::numeric / greatest((select g.at_most from onceward.limit_state('global') g), 1))
            * greatest(coalesce((select extract(epoch from avg(r.took)) from recent r), 180), 1))::int
      from line l where l.course_id = p_course and l.organization_id = onceward.organization()
$$;
revoke all on function coursegen.place_in_line(uuid, int) from public;
grant execute on function coursegen.place_in_line(uuid, int) to onceward_app, onceward_engine;
