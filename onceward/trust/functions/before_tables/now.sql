-- Return the business time. Tests replace the body of this function to set the clock of one database.
create or replace function onceward.now() returns timestamptz
    language sql stable parallel safe as 'select now()';

comment on function onceward.now() is
    'Return the business time. Tests replace the body of this function to set the clock of one database.';
