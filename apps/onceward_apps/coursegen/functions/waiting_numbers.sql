-- Return how many other courses than p_course wait for a slot of the global limit, of all organizations, and how many of
-- them one user of the current organization has in the line. Courses that wait for another course of their user, or for an
-- account at the language model, take no place from others.
create or replace function coursegen.waiting_numbers(p_user uuid, p_course uuid, out everybody int, out own int)
    language sql stable security definer set search_path = pg_catalog, pg_temp as $$
    select (count(*) filter (where l.needs_only_global))::int,
           (count(*) filter (where l.organization_id = onceward.organization() and l.user_id = p_user))::int
      from coursegen.waiting_line(0) l where l.course_id <> p_course
$$;
revoke all on function coursegen.waiting_numbers(uuid, uuid) from public;
grant execute on function coursegen.waiting_numbers(uuid, uuid) to onceward_app, onceward_engine;
