-- Store the state that a service reports, unless a later one is stored.
-- Return whether the state before was bad; no row if nothing changed.
with before as (
    select s.state, s.is_bad from onceward.service_states s
     where s.organization_id is not distinct from $1 and s.service = $2 and s.account = $3 and s.subject = $4
       for update
), saved as (
    insert into onceward.service_states as s (organization_id, service, account, subject, state, reason, is_bad, changed_at)
    -- The join makes sure that the row is read before it is changed.
    select $1::uuid, $2, $3, $4, $5, $6, $7, $8 from (select 1) as one left join before on true
    on conflict (coalesce(organization_id, '00000000-0000-0000-0000-000000000000'), service, account, subject) do update
       set state = excluded.state, reason = excluded.reason, is_bad = excluded.is_bad, changed_at = excluded.changed_at
     where excluded.changed_at >= s.changed_at and (excluded.state, excluded.reason) is distinct from (s.state, s.reason)
    returning 1
)
select coalesce((select b.is_bad from before b), false) as was_bad from saved
