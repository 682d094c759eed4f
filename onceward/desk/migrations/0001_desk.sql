-- What the staff of an organization keep about the objects of its apps.

create table onceward.desk_notes (
    id bigint primary key default nextval('onceward.ids'),
    organization_id uuid not null references onceward.organizations on delete cascade,
    entity_type text not null,
    entity_id text not null,
    author text not null,
    body text not null check (length(body) between 1 and 4000),
    created_at timestamptz not null default onceward.now()
);
create index desk_notes_entity on onceward.desk_notes (organization_id, entity_type, entity_id, id);
comment on table onceward.desk_notes is 'Notes by staff, shown in the timeline of an object.';
select onceward.protect('onceward.desk_notes');

create table onceward.desk_views (
    organization_id uuid not null references onceward.organizations on delete cascade,
    listing text not null,                 -- desk.listing
    name text not null check (length(name) between 1 and 60),
    query text not null check (length(query) <= 2000),
    created_by text not null,
    created_at timestamptz not null default onceward.now(),
    primary key (organization_id, listing, name)
);
comment on table onceward.desk_views is 'Filters that the staff of an organization have saved under a name.';
select onceward.protect('onceward.desk_views');

create table onceward.desk_runs (
    id bigint primary key default nextval('onceward.ids'),
    organization_id uuid not null references onceward.organizations on delete cascade,
    action text not null,                  -- desk.listing.action
    given jsonb not null,
    reason text not null default '',
    actor text not null,                   -- by whom, for the audit log
    actor_id text not null default '',     -- the user or key, which is asked again whether it may
    rows text[] not null check (cardinality(rows) between 1 and 10000),
    done int not null default 0,           -- rows that were looked at: the job goes on here
    succeeded int not null default 0,
    problems jsonb not null default '[]',  -- the first 100 rows that were refused, with the reason
    stopped text,                          -- why the run ended before its last row
    created_at timestamptz not null default onceward.now(),
    ended_at timestamptz
);
create index desk_runs_organization on onceward.desk_runs (organization_id, id);
comment on table onceward.desk_runs is 'Actions on several rows, and how far each has come.';
select onceward.protect('onceward.desk_runs');
