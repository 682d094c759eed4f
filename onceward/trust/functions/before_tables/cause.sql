-- Return the id of the event, job or other row that caused this transaction. Null: a person or a request without an id did.
create or replace function onceward.cause() returns bigint
    language sql stable parallel safe
    as $$select nullif(split_part(current_setting('onceward.cause', true), ':', 2), '')::bigint$$;

comment on function onceward.cause() is
    'Return the id of the event, job or other row that caused this transaction. Null: a person or a request without an id did.';
