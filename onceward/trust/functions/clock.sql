-- Return the current time, also within a transaction: for decisions after a wait for a lock. It follows onceward.now() when
-- tests set the clock.
create or replace function onceward.clock() returns timestamptz
    language sql volatile as 'select clock_timestamp() + (onceward.now() - now())';

comment on function onceward.clock() is
    'Return the current time, also within a transaction: for decisions after a wait for a lock. '
     'It follows onceward.now() when tests set the clock.';
