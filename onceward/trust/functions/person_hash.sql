-- Return the hash that replaces an address or id after an erasure. The hash identifies the same person again but does not
-- reveal the address.
create or replace function onceward.person_hash(reference text) returns text
    language sql immutable parallel safe
    as $$select encode(sha256(convert_to(lower(btrim(reference)), 'UTF8')), 'hex')$$;

comment on function onceward.person_hash(text) is
    'Return the hash that replaces an address or id after an erasure. '
     'The hash identifies the same person again but does not reveal the address.';
