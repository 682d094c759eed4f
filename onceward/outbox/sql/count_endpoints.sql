-- Count the active, disabled and warned endpoints, each up to $2.
select (select count(*) from (
            select from onceward.endpoints e
             where e.deleted_at is null and e.active and ($1::uuid is null or e.organization_id = $1) limit $2) a) as active,
       (select count(*) from (
            select from onceward.endpoints e
             where e.deleted_at is null and not e.active and e.disabled_reason in ('failing', 'gone')
               and ($1::uuid is null or e.organization_id = $1) limit $2) d) as disabled,
       (select count(*) from (
            select from onceward.endpoints e
             where e.deleted_at is null and e.active and e.warned_at is not null
               and ($1::uuid is null or e.organization_id = $1) limit $2) w) as warned
