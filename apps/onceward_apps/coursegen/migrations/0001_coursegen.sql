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
    sources jsonb not null default '[]',                          -- texts that the course is written from: title, text, url
    pictures boolean not null default false,                      -- whether a drawing is made for each lesson
    language text not null default 'en',
    lesson_count smallint not null check (lesson_count between 1 and 50),
    budget_micros bigint not null check (budget_micros > 0),      -- millionths of a US dollar, for one attempt
    status text not null default 'draft'
        check (status in ('draft', 'queued', 'generating', 'completed', 'failed', 'cancelled')),
    attempt int not null default 1,                               -- the version that is written; a restart or a rewrite counts up
    shown int,                                                    -- the newest complete version: readers see it until the next is complete
    generation_progress jsonb,
    last_progress_update timestamptz,
    webhook_url text,
    webhook_endpoint uuid,                                        -- the endpoint that onceward created for webhook_url
    job_id bigint,                                                -- the job of the current or last run
    tier text,                                                    -- the tier that the run was admitted with
    user_limit smallint,                                          -- the courses of that tier that one user may have at once
    request_id text,
    error_code text,
    error text,
    queued_at timestamptz,
    line_at timestamptz,                                          -- the time of the request minus the head start of its tier
    admitted_at timestamptz,                                      -- since when its job holds its slots; null: it waits and holds none
    waits_for text check (waits_for in ('slot', 'retry', 'account')),
    not_before timestamptz,                                       -- a retry gets no slot earlier
    released_at timestamptz,                                      -- since when a started run waits; this time does not count
    started_at timestamptz,                                       -- the first start of the run, plus the time that it waited
    begun_at timestamptz,                                         -- the start of the job's latest attempt, in real time
    finished_at timestamptz,
    created_at timestamptz not null default onceward.now(),
    updated_at timestamptz not null default onceward.now(),
    unique (id, organization_id)
);
create index courses_newest on coursegen.courses (organization_id, created_at, id);
create index courses_owner on coursegen.courses (organization_id, user_id, created_at);
create index courses_unfinished on coursegen.courses (status) where status in ('queued', 'generating');
create index courses_waiting on coursegen.courses (line_at) where status in ('queued', 'generating') and admitted_at is null;
create index courses_admitted on coursegen.courses (organization_id, user_id)
    where status in ('queued', 'generating') and admitted_at is not null;
create index courses_durations on coursegen.courses (finished_at) where status = 'completed' and begun_at is not null;
create index courses_job on coursegen.courses (job_id) where job_id is not null;
select onceward.protect('coursegen.courses');
select onceward.watch('coursegen.courses', array['id', 'user_id']);

create table coursegen.course_versions (
    organization_id uuid not null,
    course_id uuid not null,
    attempt int not null,
    kind text not null check (kind in ('first', 'restart', 'rewrite')),
    lesson smallint check ((lesson is not null) = (kind = 'rewrite')),
    outline jsonb,
    review jsonb,
    progress jsonb,                                               -- as it was when the run ended
    created_at timestamptz not null default onceward.now(),
    completed_at timestamptz,                                     -- null: being written, or given up
    primary key (course_id, attempt),
    unique (course_id, attempt, organization_id),
    foreign key (course_id, organization_id) references coursegen.courses (id, organization_id) on delete cascade
);
comment on table coursegen.course_versions is
    'Every version of a course. A new version is written beside the one that readers see, and replaces it when it is complete.';
select onceward.protect('coursegen.course_versions');
select onceward.watch('coursegen.course_versions', 'course_id');

create table coursegen.course_lessons (
    organization_id uuid not null,
    course_id uuid not null,
    attempt int not null,
    position smallint not null check (position > 0),
    title text not null,
    summary text not null default '',
    content text,                                                 -- null: not written yet
    part text,                                                    -- the beginning of a text that reached the limit of tokens
    content_at timestamptz,
    picture jsonb,                                                -- alt and svg; null: not drawn yet; {}: the model gave none
    exercises jsonb,                                              -- null: not written yet
    exercises_at timestamptz,
    primary key (course_id, attempt, position),
    foreign key (course_id, attempt, organization_id)
        references coursegen.course_versions (course_id, attempt, organization_id) on delete cascade
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
    user_id uuid not null,
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
    reconciled_at timestamptz,                                    -- when an estimate was compared with the usage of the account
    error text,
    started_at timestamptz not null default clock_timestamp(),
    finished_at timestamptz,
    caused_by bigint default onceward.cause(),
    check ((state = 'started') = (cost_micros is null))
);
comment on table coursegen.llm_calls is
    'Every call to the language model, written before it is made. '
    'A call that a crash interrupted is `lost` and counts with its largest possible cost.';
create index llm_calls_course on coursegen.llm_calls (course_id, attempt);
create index llm_calls_month on coursegen.llm_calls (organization_id, finished_at);
create index llm_calls_open on coursegen.llm_calls (organization_id) where state = 'started';
create index llm_calls_typical on coursegen.llm_calls (organization_id, step, id desc) where state = 'done' and not estimated;
create index llm_calls_estimated on coursegen.llm_calls (finished_at) where estimated and reconciled_at is null;
create index llm_calls_caused_by on coursegen.llm_calls (caused_by) where caused_by is not null;
select onceward.protect('coursegen.llm_calls');
select onceward.watch('coursegen.llm_calls', 'course_id');

create table coursegen.model_pauses (
    organization_id uuid primary key references onceward.organizations,
    reason text not null,
    since timestamptz not null default onceward.now(),
    next_try_at timestamptz not null                              -- then one course may try whether the account works again
);
comment on table coursegen.model_pauses is
    'Organizations whose account at the language model is refused. Their courses wait without slots.';
select onceward.protect('coursegen.model_pauses');

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

create table coursegen.user_costs (
    organization_id uuid not null,
    user_id uuid not null,
    month date not null,
    cost_micros bigint not null default 0,
    primary key (organization_id, user_id, month)
);
comment on table coursegen.user_costs is 'The sum of llm_calls by month and user, for the cap of a user.';
select onceward.protect('coursegen.user_costs');

create table coursegen.organization_settings (
    organization_id uuid primary key references onceward.organizations,
    models text not null default '',                              -- as ONCEWARD_COURSEGEN_MODELS, for the steps that differ
    prices text not null default '',                              -- as ONCEWARD_COURSEGEN_PRICES, for the models that differ
    monthly_cap_micros bigint check (monthly_cap_micros >= 0),    -- null: the cap of the installation
    user_cap_micros bigint check (user_cap_micros >= 0),
    updated_at timestamptz not null default onceward.now()
);
comment on table coursegen.organization_settings is 'Models, prices and monthly caps that an organization has chosen.';
select onceward.protect('coursegen.organization_settings');

do $$
begin
    if to_regprocedure('public.update_course_progress(uuid, integer, text, text, text, jsonb, jsonb)') is not null then
        raise exception 'public.update_course_progress exists and is not ours: rename or drop it, then migrate again';
    end if;
end
$$;
