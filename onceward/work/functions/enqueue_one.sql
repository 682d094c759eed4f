-- Insert one job, or return the unfinished (or remembered) job that already has its unique key, as a duplicate.
create or replace function onceward.enqueue_one(
    p_task text, p_args jsonb, p_queue text, p_run_at timestamptz, p_boost_s int, p_unique_key text,
    p_unique_for text, p_on_conflict text, p_lane text, p_cap int, p_ordered boolean, p_parent text, p_parent_cap int,
    p_max_attempts int, p_tags text[], p_bundle bigint, p_organization uuid, p_caused_by bigint, p_context jsonb,
    out id bigint, out duplicate boolean
) language plpgsql as $$
declare
    v_now timestamptz := onceward.now();
    v_due timestamptz := coalesce(p_run_at, v_now);
    v_sort timestamptz := case when v_due <= v_now then v_due - make_interval(secs => p_boost_s) else v_due end;
    v_owner uuid := coalesce(p_organization, '00000000-0000-0000-0000-000000000000');
    v_key text := case when p_unique_key is not null then p_task || ':' || p_unique_key end;
    v_lease bigint;
begin
    id := nextval('onceward.ids');
    duplicate := false;
    if v_key is not null and p_unique_for <> 'unfinished' then
        insert into onceward.unique_keys as k (organization_id, key, work_id, expires_at)
        values (v_owner, v_key, id, case when p_unique_for <> 'ever' then v_now + p_unique_for::interval end)
        on conflict (organization_id, key) do update
            set work_id = excluded.work_id, expires_at = excluded.expires_at
            where k.expires_at <= v_now;
        if not found then
            select k.work_id into id from onceward.unique_keys k where k.organization_id = v_owner and k.key = v_key;
            duplicate := true;
            if p_on_conflict = 'skip' then
                perform onceward.note_duplicate_job(id, p_task, p_unique_key, p_organization, jsonb_build_object(
            'request', p_context -> 'request', 'user', coalesce(p_args ->> 'user_id', p_context ->> 'user'),
            'course', p_args ->> 'course_id'));
            end if;
            return;
        end if;
    end if;
    insert into onceward.work as w
        (id, organization_id, kind, task, queue, sort_at, max_attempts, lane, cap, ordered, parent, parent_cap, unique_key, bundle)
    values (enqueue_one.id, p_organization, 'job', p_task, p_queue, v_sort, p_max_attempts, p_lane, p_cap, p_ordered,
            p_parent, p_parent_cap, v_key, p_bundle)
    on conflict (coalesce(organization_id, '00000000-0000-0000-0000-000000000000'::uuid), unique_key)
        where unique_key is not null and dead_reason is null
    do nothing;
    if found then
        insert into onceward.jobs (id, organization_id, task, args, caused_by, tags, context)
        values (enqueue_one.id, p_organization, p_task, p_args, p_caused_by, p_tags, p_context);
        return;
    end if;

    duplicate := true;
    select w.id, w.lease into id, v_lease
      from onceward.work w
     where coalesce(w.organization_id, '00000000-0000-0000-0000-000000000000'::uuid) = v_owner
       and w.unique_key = v_key and w.dead_reason is null
       for update;
    if id is null then
        -- The other job finished between the two statements, so this one is needed.
        select r.id, r.duplicate into id, duplicate from onceward.enqueue_one(
            p_task, p_args, p_queue, p_run_at, p_boost_s, p_unique_key, 'unfinished', p_on_conflict, p_lane, p_cap,
            p_ordered, p_parent, p_parent_cap, p_max_attempts, p_tags, p_bundle, p_organization, p_caused_by, p_context) r;
        return;
    end if;
    if p_on_conflict = 'skip' then
        perform onceward.note_duplicate_job(id, p_task, p_unique_key, p_organization, jsonb_build_object(
            'request', p_context -> 'request', 'user', coalesce(p_args ->> 'user_id', p_context ->> 'user'),
            'course', p_args ->> 'course_id'));
    end if;
    if v_lease is null and p_on_conflict in ('replace', 'debounce') then
        update onceward.work w set sort_at = v_sort where w.id = enqueue_one.id;
        if p_on_conflict = 'replace' then
            update onceward.jobs j set args = p_args, tags = p_tags where j.id = enqueue_one.id;
        end if;
    end if;
end
$$;
