-- Record that the person with the references $1 was erased from the organization $2 by this moment. Not the time at which this
-- transaction began: transactions that began since may have read the person. While a test has stopped the clock, it is that time.
insert into onceward.erasures (person_hash, organization_id, erased_at)
select distinct onceward.person_hash(reference), $2::uuid,
       case when onceward.now() = now() then clock_timestamp() else onceward.now() end
  from unnest($1::text[]) as reference
 order by 1
on conflict (person_hash, (coalesce(organization_id, '00000000-0000-0000-0000-000000000000'))) do update
   set erased_at = greatest(erasures.erased_at, excluded.erased_at)
returning person_hash
