-- Insert one job, or return the unfinished (or remembered) job that already has its unique key, as a duplicate.
-- `replace` and `debounce` give the unfinished job the new arguments. If an attempt of it is running, that attempt keeps the old
-- ones, and the job runs again with the new ones when the attempt has ended (onceward.run_again).
create or replace function onceward.enqueue_one(
    p_task text, p_args jsonb, p_queue text, p_run_at timestamptz, p_boost_s int, p_unique_key text,
    p_unique_for text, p_on_conflict text, p_lane text, p_cap int, p_ordered boolean, p_parent text, p_parent_cap int,
    p_max_attempts int, p_tags text[], p_bundle bigint, p_organization uuid, p_caused_by bigint, p_context jsonb,
    p_fair_key text default null,
    out id bigint, out duplicate boolean
) language plpgsql as $$
declare
    v_now timestamptz := onceward.now();
    v_due timestamptz := coalesce(p_run_at, v_now);
    v_sort timestamptz := case when v_due <= v_now then v_due - make_interval(secs => p_boost_s) else v_due end;
    v_owner uuid := coalesce(p_organization, '00000000-0000-0000-0000-000000000000');
    v_key text := case when p_unique_key is not null then p_task || ':' || p_unique_key end;
    v_is_free boolean := true;
    v_held record;
begin
    id := nextval('onceward.ids');
    duplicate := false;
    for v_try in 1..20 loop
        if v_key is not null and p_unique_for <> 'unfinished' then
            -- An expired key is taken over only if its job has finished.
            insert into onceward.unique_keys as k (organization_id, key, work_id, expires_at)
            values (v_owner, v_key, enqueue_one.id, case when p_unique_for <> 'ever' then v_now + p_unique_for::interval end)
            on conflict (organization_id, key) do update
                set work_id = excluded.work_id, expires_at = excluded.expires_at
                where k.work_id = excluded.work_id or k.expires_at <= v_now and not exists (
                    select from onceward.work w
                     where coalesce(w.organization_id, '00000000-0000-0000-0000-000000000000'::uuid) = v_owner
                       and w.unique_key = v_key and w.dead_reason is null);
            v_is_free := found;
        end if;
        if v_is_free then
            insert into onceward.work as w (id, organization_id, kind, task, queue, sort_at, max_attempts, lane, cap, ordered,
                                            parent, parent_cap, unique_key, bundle, line)
            values (enqueue_one.id, p_organization, 'job', p_task, p_queue, v_sort, p_max_attempts, p_lane, p_cap, p_ordered,
                    p_parent, p_parent_cap, v_key, p_bundle, onceward.line_of(p_organization, p_fair_key))
            on conflict (coalesce(organization_id, '00000000-0000-0000-0000-000000000000'::uuid), unique_key)
                where unique_key is not null and dead_reason is null
            do nothing;
            if found then
                insert into onceward.jobs (id, organization_id, task, args, caused_by, tags, context)
                values (enqueue_one.id, p_organization, p_task, p_args, p_caused_by, p_tags, p_context);
                return;
            end if;
        end if;

        select w.id, w.lease into v_held
          from onceward.work w
         where coalesce(w.organization_id, '00000000-0000-0000-0000-000000000000'::uuid) = v_owner
           and w.unique_key = v_key and w.dead_reason is null
           for update;
        if found then
            -- The key now belongs to that job: it must never refer to an id that was not used.
            update onceward.unique_keys k set work_id = v_held.id
             where k.organization_id = v_owner and k.key = v_key and k.work_id = enqueue_one.id;
        else
            select k.work_id as id, null::bigint as lease into v_held
              from onceward.unique_keys k
             where k.organization_id = v_owner and k.key = v_key and k.work_id <> enqueue_one.id
               and (k.expires_at is null or k.expires_at > v_now);
        end if;
        exit when v_held.id is not null;
        -- The other job finished between the statements, so this one is needed after all.
    end loop;
    if v_held.id is null then
        raise exception 'onceward.enqueue: the unique key % of % changes too often', p_unique_key, p_task using errcode = '40001';
    end if;

    id := v_held.id;
    duplicate := true;
    if p_on_conflict = 'skip' then
        perform onceward.note_duplicate_job(id, p_task, p_unique_key, p_organization, jsonb_build_object(
            'request', p_context -> 'request', 'user', coalesce(p_args ->> 'user_id', p_context ->> 'user')));
    end if;
    if p_on_conflict not in ('replace', 'debounce') then
        return;
    end if;
    -- The new arguments have all attempts before them. Work that waits for a bundle (due at infinity) goes on waiting.
    update onceward.work w
       set sort_at = case when w.sort_at = 'infinity' then w.sort_at when p_on_conflict = 'debounce' then v_sort
                          when v_held.lease is not null then v_sort else least(w.sort_at, v_sort) end,
           replaced_under = v_held.lease,
           earlier = w.earlier + case when v_held.lease is null then w.attempts else 0 end,
           attempts = case when v_held.lease is null then 0 else w.attempts end
     where w.id = v_held.id and w.dead_reason is null;
    if found then
        update onceward.jobs j set args = p_args, tags = p_tags where j.id = v_held.id;
        delete from onceward.checkpoints c where c.work_id = v_held.id;
    end if;
end
$$;
