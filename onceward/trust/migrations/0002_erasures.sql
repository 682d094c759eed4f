-- onceward: expand
-- Who was erased, and when. A message of a transaction that began before is not sent: the erasure could not see it.
create table onceward.erasures (
    person_hash text not null,              -- the onceward.person_hash of each reference that was given
    organization_id uuid,                   -- null: the data that belongs to no organization
    erased_at timestamptz not null          -- the latest erasure, by the clock that sets created_at of other rows;
                                            -- infinity: it has committed, and nobody has noted when
);
create unique index erasures_key on onceward.erasures
    (person_hash, coalesce(organization_id, '00000000-0000-0000-0000-000000000000'));
create index erasures_open on onceward.erasures (erased_at) where erased_at = 'infinity';
comment on table onceward.erasures is 'Hashes of the references to people who were erased. Messages that were queued before are not sent.';
select onceward.protect('onceward.erasures');
revoke all on onceward.erasures from onceward_app;
