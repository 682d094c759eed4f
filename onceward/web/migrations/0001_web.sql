-- Keep the dashboard fast, however long the history is: summarise new pages of the index as they fill, so that a query for the
-- last minute does not read everything since the last vacuum.
alter index onceward.attempts_finished set (autosummarize = on);

-- Keys of the header Idempotency-Key, one series per caller and path in an organization (all zeros: the instance). The response
-- is encrypted, because it may contain personal data; secrets are not stored. Only the engine reads the table; rows are
-- deleted after 24 hours.
create table onceward.idempotency_keys (
    id uuid not null unique default gen_random_uuid(),
    organization_id uuid not null,
    scope bytea not null,                   -- hash of the caller's kind and subject, and of the path
    key text not null check (length(key) between 1 and 255),
    request_hash bytea not null,
    status int,                             -- null: the request is running, or its process stopped before it answered
    content_type text,
    body bytea,
    withheld text[] not null default '{}',  -- members of the response that were secret and are null here
    created_at timestamptz not null default clock_timestamp(),
    primary key (organization_id, scope, key)
);
create index idempotency_keys_by_age on onceward.idempotency_keys (created_at);
alter table onceward.idempotency_keys enable row level security;
create policy engine on onceward.idempotency_keys for all to onceward_engine using (true) with check (true);
grant select, insert, update, delete on onceward.idempotency_keys to onceward_engine;
