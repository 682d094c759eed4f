-- Lock a job that a program holds under this lease until the commit, and return it. Otherwise the program has lost it: OW001.
create or replace function onceward.external_held(
    p_id bigint, p_lease bigint, p_all boolean, p_organization uuid,
    out task text, out attempts int, out max_attempts smallint, out claimed_at timestamptz, out cancel boolean
) language plpgsql as $$
begin
    select w.task, w.attempts, w.max_attempts, w.claimed_at, coalesce(w.cancel, false)
      into external_held.task, external_held.attempts, external_held.max_attempts, external_held.claimed_at, external_held.cancel
      from onceward.work w
     where w.id = p_id and w.lease = p_lease and starts_with(w.queue, 'external:')
       and (p_all or w.organization_id is not distinct from p_organization)
       for update;
    if not found then
        raise exception 'job % is not held under this lease', p_id using errcode = 'OW001',
            hint = 'the claim expired, or the job has ended: give up this attempt';
    end if;
end
$$;
