-- Return the organization that the transaction acts for, or null for the platform itself.
create or replace function onceward.organization() returns uuid
    language sql stable parallel safe
    as $$select nullif(current_setting('onceward.organization', true), '')::uuid$$;

comment on function onceward.organization() is
    'Return the organization that the transaction acts for, or null for the platform itself.';
