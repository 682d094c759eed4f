-- onceward: expand
-- Quizzes with questions, work that students hand in, and grades.

create table learning.quiz_questions (
    id uuid primary key default gen_random_uuid(),
    organization_id uuid not null default onceward.organization(),
    item_id uuid not null,
    position int not null,
    question text not null check (length(question) between 1 and 1000),
    options text[] not null check (cardinality(options) between 2 and 10),
    correct int[] not null check (cardinality(correct) >= 1),          -- the right options, counted from 0
    unique (id, organization_id),
    unique (item_id, position),
    foreign key (item_id, organization_id) references learning.content_items (id, organization_id) on delete cascade
);
select onceward.protect('learning.quiz_questions');

-- One row for each student and quiz, however often the student tries.
create table learning.quiz_results (
    organization_id uuid not null default onceward.organization(),
    enrollment_id uuid not null,
    item_id uuid not null,
    attempts int not null default 1,
    best int not null,                          -- percent of the questions, in the best attempt
    last int not null,                          -- percent of the questions, in the last one
    passed_at timestamptz,
    attempted_at timestamptz not null default onceward.now(),
    last_key text,                              -- the browser's key of the last attempt: a repeated request counts once
    primary key (enrollment_id, item_id),
    foreign key (enrollment_id, organization_id) references learning.enrollments (id, organization_id),
    foreign key (item_id, organization_id) references learning.content_items (id, organization_id) on delete cascade
);
select onceward.protect('learning.quiz_results');

-- The work of a student for an assignment that an instructor grades.
--
--     DRAFT ──▶ HANDED_IN ──▶ PASSED
--                  ▲ └──────▶ RETURNED ─┐
--                  └────────────────────┘
create table learning.submissions (
    id uuid primary key default gen_random_uuid(),
    organization_id uuid not null default onceward.organization(),
    enrollment_id uuid not null,
    item_id uuid not null,
    text text not null default '' check (length(text) <= 20000),
    status text not null default 'DRAFT' check (status in ('DRAFT', 'HANDED_IN', 'PASSED', 'RETURNED')),
    revision int not null default 0,            -- how often it was handed in
    handed_in_at timestamptz,
    grade int check (grade between 0 and 100),
    feedback text check (length(feedback) <= 5000),
    graded_by text,
    graded_at timestamptz,
    created_at timestamptz not null default onceward.now(),
    unique (id, organization_id),
    unique (enrollment_id, item_id),
    foreign key (enrollment_id, organization_id) references learning.enrollments (id, organization_id),
    foreign key (item_id, organization_id) references learning.content_items (id, organization_id)
);
create index submissions_newest on learning.submissions (organization_id, created_at, id);
create index submissions_to_grade on learning.submissions (organization_id, handed_in_at) where status = 'HANDED_IN';
create index submissions_by_item on learning.submissions (item_id, created_at, id);
select onceward.protect('learning.submissions');

-- Files of a submission. The row is written before the file and confirmed after it, so that no file is left without a row.
create table learning.submission_files (
    id uuid primary key default gen_random_uuid(),
    organization_id uuid not null default onceward.organization(),
    submission_id uuid not null,
    name text not null check (length(name) between 1 and 200),
    content_type text not null check (length(content_type) <= 100),
    size bigint not null check (size >= 0),
    stored_at timestamptz,                      -- null: the upload is under way, or was cut off
    discarded_at timestamptz,                   -- the file is deleted by the next `learning.old_records`
    created_at timestamptz not null default onceward.now(),
    foreign key (submission_id, organization_id) references learning.submissions (id, organization_id)
);
create index submission_files_by_submission on learning.submission_files (submission_id);
create index submission_files_to_delete on learning.submission_files (created_at) where discarded_at is not null or stored_at is null;
select onceward.protect('learning.submission_files');

select onceward.watch('learning.quiz_results', 'enrollment_id');
select onceward.watch('learning.submissions', 'enrollment_id');
