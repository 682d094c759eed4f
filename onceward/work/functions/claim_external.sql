-- Claim due jobs of tasks that are written in other languages, for one organization or (p_all) for everybody. Jobs outside lanes are
-- claimed owner by owner from a random owner on, so that nobody's backlog delays others; lanes with onceward.claim_lanes.
-- The claim lasts p_lease_s seconds (null: as the task says) and is extended by onceward.heartbeat_job.
create or replace function onceward.claim_external(
    p_tasks text[], p_most int, p_lease_s double precision, p_worker text, p_all boolean, p_organization uuid
) returns table (
    id bigint, lease bigint, task text, args jsonb, attempt int, expires_at timestamptz, cursor jsonb, tags text[], organization_id uuid,
    caused_by bigint, trace text
) language plpgsql as $$
#variable_conflict use_column
declare
    v_lease bigint := onceward.new_lease();
    v_ids bigint[] := '{}';
    v_task text;
    v_queue text;
    v_here bigint[];
    v_room int;
begin
    if p_tasks is null or cardinality(p_tasks) not between 1 and 100 or array_position(p_tasks, null) is not null then
        raise exception 'tasks must be a list of 1 to 100 names of jobs, not %', coalesce(cardinality(p_tasks), 0) using errcode = '22023';
    end if;
    if p_most is null or p_most not between 1 and 100 then
        raise exception 'most must be between 1 and 100, not %', coalesce(p_most::text, 'null') using errcode = '22023';
    end if;
    if not p_lease_s between 1 and 86400 then
        raise exception 'lease_s must be between 1 and 86400, not %', p_lease_s using errcode = '22023';
    end if;
    perform onceward.release_expired_jobs();
    -- In a random order: a task with a backlog must not delay the others.
    for v_task in select t.name from (select distinct unnest(p_tasks) as name) t order by random() loop
        v_queue := 'external:' || v_task;
        v_room := p_most - cardinality(v_ids);
        exit when v_room <= 0;
        continue when exists (select from onceward.queues q
                               where q.name = v_queue and (q.paused_at is not null or q.parked_until > clock_timestamp()));
        v_here := onceward.claim_external_lanes(v_queue, v_task, v_room, v_lease, p_all, p_organization);
        v_ids := v_ids || v_here;
        v_here := onceward.claim_external_plain(v_queue, v_room - cardinality(v_here), v_lease, p_all, p_organization);
        v_ids := v_ids || v_here;
    end loop;
    if cardinality(v_ids) = 0 then
        return;
    end if;
    return query
        with held as (
            insert into onceward.external_claims as c (work_id, lease, expires_at, worker)
            select w.id, v_lease, clock_timestamp() + make_interval(secs => coalesce(p_lease_s, t.lease_s, 60)), left(p_worker, 200)
              from unnest(v_ids) v (id) join onceward.work w using (id) left join onceward.external_tasks t on t.task = w.task
            on conflict (work_id) do update
               set lease = excluded.lease, expires_at = excluded.expires_at, worker = excluded.worker
            returning c.work_id, c.expires_at
        )
        select w.id, v_lease, w.task, j.args, w.attempts + 1, h.expires_at, k.cursor, j.tags, w.organization_id, j.caused_by,
               j.context ->> 'trace'
          from held h
          join onceward.work w on w.id = h.work_id
          join onceward.jobs j on j.id = w.id
          left join onceward.checkpoints k on k.work_id = w.id
         order by w.id;
end
$$;
