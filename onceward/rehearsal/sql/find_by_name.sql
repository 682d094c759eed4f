-- Return ids of events with this id at their sender, and of jobs that hold one of these unique keys, finished or not. Sources and
-- organizations come first, because the indexes begin with them.
with owners as (
    select organization_id as id from onceward.organizations union all select '00000000-0000-0000-0000-000000000000'::uuid
)
select e.seq as id
  from onceward.sources s
  join onceward.webhook_events e on e.webhook_id = s.webhook_id and e.event_id = $name
union
select w.id
  from owners o
  join onceward.work w on coalesce(w.organization_id, '00000000-0000-0000-0000-000000000000') = o.id
   and w.unique_key = any($keys::text[]) and w.unique_key is not null and w.dead_reason is null
union
select w.id from onceward.work w where w.dead_reason is not null and w.unique_key = any($keys::text[])
union
select k.work_id from owners o join onceward.unique_keys k on k.organization_id = o.id and k.key = any($keys::text[])
order by 1
