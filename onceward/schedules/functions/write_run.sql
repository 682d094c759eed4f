-- Write a run with its job, or only the reason why the run is skipped. Null: this due time already has a run.
create or replace function onceward.write_run(
    p_schedule text, p_due timestamptz, p_origin text, p_delay_s double precision, p_scope bigint default null,
    p_asked_by text default null
) returns bigint language plpgsql as $$
declare
    v onceward.schedules;
    v_id bigint := nextval('onceward.ids');
    v_busy boolean;
begin
    select * into strict v from onceward.schedules s where s.name = p_schedule;
    v_busy := v.overlap = 'skip' and p_origin = 'clock' and exists (
        select from onceward.runs r where r.schedule = p_schedule and r.status in ('pending', 'running'));
    insert into onceward.runs (id, schedule, due_at, origin, status, reason, scope, asked_by, finished_at)
    values (v_id, p_schedule, p_due, p_origin, case when v_busy then 'skipped' else 'pending' end,
            case when v_busy then 'overlap' end, coalesce(p_scope, v_id), p_asked_by,
            case when v_busy then onceward.now() end)
    on conflict (schedule, due_at) do nothing;
    if not found then
        return null;
    end if;
    if not v_busy then
        insert into onceward.jobs (id, task, args) values (v_id, v.task, '{}');
        insert into onceward.work (id, kind, task, queue, sort_at, lane, cap, ordered)
        values (v_id, 'job', v.task, v.queue, onceward.now() + make_interval(secs => p_delay_s),
                case when v.overlap <> 'allow' then 'schedule:' || p_schedule end,
                case when v.overlap <> 'allow' then 1 end,
                case when v.overlap = 'queue' then true end);
    end if;
    return v_id;
end
$$;
