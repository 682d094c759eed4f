-- Refuse the commit of a rehearsal, whatever its handler or a library has sent: OW091 says that a COMMIT was tried.
create or replace function onceward.refuse_commit() returns trigger language plpgsql as $$
begin
    raise exception 'a rehearsal is never committed' using errcode = 'OW091';
end
$$;
