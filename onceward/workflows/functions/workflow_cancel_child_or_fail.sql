-- Cancel one child of a workflow that is held under this lease, else raise OW001: the children belong to the run that holds
-- the lease.
-- The child is locked before its parent, in the same order as when a child ends.
create or replace function onceward.workflow_cancel_child_or_fail(p_id bigint, p_lease bigint, p_child bigint)
    returns void language plpgsql as $$
begin
    perform onceward.cancel(p_child);
    perform from onceward.work w where w.id = p_id and w.lease = p_lease for share;
    if not found then
        raise exception 'workflow % is no longer held under this lease', p_id using errcode = 'OW001';
    end if;
end
$$;
