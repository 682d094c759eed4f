-- Course generation: courses with their progress and lessons, the log of calls to the language model, and costs by tier.

create schema coursegen;
grant usage on schema coursegen to onceward_app, onceward_engine;

create table coursegen.users (
    organization_id uuid not null references onceward.organizations,
    user_id uuid not null,
    tier text not null default 'FREE' check (tier ~ '^[A-Z][A-Z0-9_]{0,39}$'),
    created_at timestamptz not null default onceward.now(),
    primary key (organization_id, user_id)
);
comment on table coursegen.users is 'The tier of each user. A user without a row has the smallest tier.';
select onceward.protect('coursegen.users');

create table coursegen.courses (
    id uuid primary key default gen_random_uuid(),
    organization_id uuid not null references onceward.organizations,
    user_id uuid not null,
    title text not null check (title <> ''),
    brief text not null default '',
    language text not null default 'en',
    lesson_count smallint not null check (lesson_count between 1 and 50),
    budget_micros bigint not null check (budget_micros > 0),      -- millionths of a US dollar, for one attempt
    status text not null default 'draft'
        check (status in ('draft', 'queued', 'generating', 'completed', 'failed', 'cancelled')),
    attempt int not null default 1,                               -- a restart counts up; a resume does not
    generation_progress jsonb,
    last_progress_update timestamptz,
    webhook_url text,
    webhook_endpoint uuid,                                        -- the endpoint that onceward created for webhook_url
    job_id bigint,                                                -- the job of the current or last run
    tier text,                                                    -- the tier that the run was admitted with
    request_id text,
    outline jsonb,
    review jsonb,
    error_code text,
    error text,
    queued_at timestamptz,
    started_at timestamptz,                                       -- the first start of the current run; its deadline counts from here
    begun_at timestamptz,                                         -- the start of the job's latest attempt, in real time
    finished_at timestamptz,
    created_at timestamptz not null default onceward.now(),
    updated_at timestamptz not null default onceward.now()
);
create index courses_owner on coursegen.courses (organization_id, user_id, created_at);
create index courses_unfinished on coursegen.courses (status) where status in ('queued', 'generating');
create index courses_job on coursegen.courses (job_id) where job_id is not null;
select onceward.protect('coursegen.courses');
select onceward.watch('coursegen.courses', array['id', 'user_id']);

create table coursegen.course_lessons (
    organization_id uuid not null,
    course_id uuid not null references coursegen.courses on delete cascade,
    position smallint not null check (position > 0),
    title text not null,
    summary text not null default '',
    content text,                                                 -- null: not written yet
    content_at timestamptz,
    exercises jsonb,                                              -- null: not written yet
    exercises_at timestamptz,
    primary key (course_id, position)
);
comment on table coursegen.course_lessons is
    'A lesson with content is a checkpoint: no later attempt of the job writes it, or pays for it, again.';
select onceward.protect('coursegen.course_lessons');
select onceward.watch('coursegen.course_lessons', 'course_id');

-- Unlogged: a crash of PostgreSQL loses a few sentences on a screen; the lesson is being written again anyway.
create unlogged table coursegen.drafts (
    course_id uuid primary key,
    organization_id uuid not null,
    step smallint not null,
    item text not null,
    title text not null,
    text text not null,
    updated_at timestamptz not null default clock_timestamp()
);
comment on table coursegen.drafts is 'The text that a running call has returned so far, for the page that shows it.';
select onceward.protect('coursegen.drafts');
select onceward.watch('coursegen.drafts', 'course_id');

create table coursegen.llm_calls (
    id bigint primary key default nextval('onceward.ids'),
    organization_id uuid not null,
    course_id uuid not null,                                      -- no foreign key: costs outlive a deleted course
    attempt int not null,
    job_id bigint not null,
    step smallint not null,
    item text not null,
    request_id uuid not null unique,
    tier text not null,
    model text not null,
    state text not null default 'started' check (state in ('started', 'done', 'failed', 'stopped', 'lost')),
    reserved_micros bigint not null,                              -- the most that the call can cost
    prompt_tokens int,
    completion_tokens int,
    cost_micros bigint,
    estimated boolean not null default false,                     -- the provider did not report the tokens of this call
    error text,
    started_at timestamptz not null default clock_timestamp(),
    finished_at timestamptz,
    caused_by bigint default onceward.cause(),
    check ((state = 'started') = (cost_micros is null))
);
comment on table coursegen.llm_calls is
    'Every call to the language model, written before it is made. A call that a crash interrupted is `lost` and counts with its largest possible cost.';
create index llm_calls_course on coursegen.llm_calls (course_id, attempt);
create index llm_calls_month on coursegen.llm_calls (organization_id, finished_at);
create index llm_calls_caused_by on coursegen.llm_calls (caused_by) where caused_by is not null;
select onceward.protect('coursegen.llm_calls');
select onceward.watch('coursegen.llm_calls', 'course_id');

create table coursegen.tier_costs (
    organization_id uuid not null,
    month date not null,
    tier text not null,
    cost_micros bigint not null default 0,
    calls int not null default 0,
    primary key (organization_id, month, tier)
);
comment on table coursegen.tier_costs is 'The sum of llm_calls by month and tier, for the monthly caps.';
select onceward.protect('coursegen.tier_costs');
select onceward.watch('coursegen.tier_costs', array[]::text[]);

create function coursegen.fresh_progress() returns jsonb
    language sql immutable set search_path = pg_catalog, pg_temp as $$
-- The progress of a course of which nothing is done: five pending steps.
    select jsonb_build_object(
        'steps', (select jsonb_agg(jsonb_build_object(
            'status', 'pending', 'message', null, 'started_at', null, 'completed_at', null, 'error', null,
            'error_details', null, 'metadata', '{}'::jsonb)) from generate_series(1, 5)),
        'percentage', 0, 'current_step', 1)
$$;
revoke all on function coursegen.fresh_progress() from public;
grant execute on function coursegen.fresh_progress() to onceward_app, onceward_engine;

create function coursegen.merged_step(
    p_step jsonb, p_status text, p_message text, p_error text, p_details jsonb, p_metadata jsonb
) returns jsonb language plpgsql stable set search_path = pg_catalog, pg_temp as $$
-- One step after an update. A completed step stays as it is and only gains metadata.
declare
    v_time jsonb := to_jsonb(onceward.now());
begin
    p_step := p_step || jsonb_build_object('metadata', coalesce(p_step -> 'metadata', '{}') || p_metadata);
    if p_step ->> 'status' = 'completed' and p_status <> 'completed' then
        return p_step;
    end if;
    p_step := p_step || jsonb_build_object('status', p_status, 'message', coalesce(p_message, p_step ->> 'message'));
    if p_status = 'in_progress' and coalesce(p_step -> 'started_at', 'null') = 'null' then
        p_step := p_step || jsonb_build_object('started_at', v_time);
    elsif p_status = 'completed' and coalesce(p_step -> 'completed_at', 'null') = 'null' then
        p_step := p_step || jsonb_build_object('completed_at', v_time);
    end if;
    if p_error is not null then
        return p_step || jsonb_build_object('error', p_error, 'error_details', coalesce(p_details, '{}'));
    elsif p_status in ('in_progress', 'completed') then
        return p_step || '{"error": null, "error_details": null}';
    end if;
    return p_step;
end
$$;
revoke all on function coursegen.merged_step(jsonb, text, text, text, jsonb, jsonb) from public;

do $$
begin
    if to_regprocedure('public.update_course_progress(uuid, integer, text, text, text, jsonb, jsonb)') is not null then
        raise exception 'public.update_course_progress exists and is not ours: rename or drop it, then migrate again';
    end if;
end
$$;

create function public.update_course_progress(
    p_course_id uuid,
    p_step_id integer,
    p_status text,
    p_message text,
    p_error_message text default null,
    p_error_details jsonb default null,
    p_metadata jsonb default '{}'::jsonb
) returns jsonb language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
-- Set one of the five steps and return the progress. The same call twice changes nothing the second time.
-- Percentage and current step never fall, and a completed step stays completed, in whatever order calls arrive.
declare
    v_progress jsonb;
    v_organization uuid := onceward.organization();
    -- The engine, and an owner who typed this into psql, act for every organization; everybody else for one.
    v_everything boolean := current_setting('role') = 'onceward_engine'
        or (current_setting('role') = 'none' and pg_has_role(session_user, 'onceward_engine', 'member'));
    v_percentage int;
begin
    if p_step_id is null or p_step_id not between 1 and 5 then
        raise exception 'Invalid step_id: %. Must be 1-5', coalesce(p_step_id::text, 'null') using errcode = '22023';
    end if;
    if p_status is null or p_status not in ('pending', 'in_progress', 'completed', 'failed') then
        raise exception 'Invalid status: %. Must be pending|in_progress|completed|failed', coalesce(p_status, 'null')
            using errcode = '22023';
    end if;
    p_metadata := coalesce(p_metadata, '{}');
    if jsonb_typeof(p_metadata) <> 'object' then
        raise exception 'Invalid metadata: %. Must be a JSON object', jsonb_typeof(p_metadata) using errcode = '22023';
    end if;
    if coalesce(length(p_message), 0) + coalesce(length(p_error_message), 0) > 10000
       or pg_column_size(p_metadata) + coalesce(pg_column_size(p_error_details), 0) > 65536 then
        raise exception 'message, error or metadata is too long: at most 10000 characters and 64 KiB' using errcode = '22023';
    end if;

    select c.generation_progress into v_progress from coursegen.courses c
     where c.id = p_course_id
       and (c.organization_id = v_organization or (v_everything and v_organization is null))
       for update;
    if not found then
        raise exception 'Unknown course: %', coalesce(p_course_id::text, 'null')
            using errcode = 'no_data_found', hint = 'It does not exist, or belongs to another organization than onceward.organization.';
    end if;
    if v_progress is null or jsonb_typeof(v_progress -> 'steps') is distinct from 'array'
       or jsonb_array_length(v_progress -> 'steps') <> 5 then
        v_progress := coursegen.fresh_progress();
    end if;

    v_percentage := case p_status when 'completed' then p_step_id * 20
                                  when 'in_progress' then (p_step_id - 1) * 20 + 10
                                  else (p_step_id - 1) * 20 end;
    v_progress := jsonb_set(v_progress, array['steps', (p_step_id - 1)::text], coursegen.merged_step(
        v_progress -> 'steps' -> (p_step_id - 1), p_status, p_message, p_error_message, p_error_details, p_metadata));
    v_progress := v_progress || jsonb_build_object(
        'percentage', greatest((v_progress ->> 'percentage')::int, v_percentage),
        'current_step', greatest((v_progress ->> 'current_step')::int, p_step_id));
    update coursegen.courses c
       set generation_progress = v_progress, last_progress_update = onceward.now(), updated_at = onceward.now()
     where c.id = p_course_id;
    return v_progress;
end
$$;
comment on function public.update_course_progress(uuid, integer, text, text, text, jsonb, jsonb) is
    'Set a step of a course and return its progress. Set onceward.organization first, or log in as a role that has it set.';
revoke all on function public.update_course_progress(uuid, integer, text, text, text, jsonb, jsonb) from public;
grant execute on function public.update_course_progress(uuid, integer, text, text, text, jsonb, jsonb)
    to onceward_app, onceward_engine, onceward_sql_worker;
