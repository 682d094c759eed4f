-- Delete at most $1 unique keys whose period is over; return how many. An unfinished job holds its key without this row.
with old as (
    select k.organization_id, k.key from onceward.unique_keys k
     where k.expires_at <= onceward.now() order by k.expires_at limit $1 for update skip locked
), gone as (
    delete from onceward.unique_keys k using old o where k.organization_id = o.organization_id and k.key = o.key
)
select count(*)::int from old
