-- Count the active, disabled and warned endpoints.
select count(*) filter (where e.active) as active,
       count(*) filter (where not e.active and e.disabled_reason in ('failing', 'gone')) as disabled,
       count(*) filter (where e.active and e.warned_at is not null) as warned
  from onceward.endpoints e where e.deleted_at is null
