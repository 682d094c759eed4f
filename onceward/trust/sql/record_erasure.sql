-- Record that the person with the references $1 is being erased from the organization $2. Until finish_erasures.sql has noted the
-- time, no message to the person is sent: transactions that begin before the commit can still read the person.
insert into onceward.erasures (person_hash, organization_id, erased_at)
select distinct onceward.person_hash(reference), $2::uuid, timestamptz 'infinity'
  from unnest($1::text[]) as reference
 order by 1
on conflict (person_hash, (coalesce(organization_id, '00000000-0000-0000-0000-000000000000'))) do update
   set erased_at = excluded.erased_at
