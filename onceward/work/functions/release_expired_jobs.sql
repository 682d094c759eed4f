-- Take back jobs whose program has let its claim expire. It counts as a crash: the third one is a dead letter. A job whose outcome is
-- being committed is locked, and left alone.
create or replace function onceward.release_expired_jobs() returns int language plpgsql as $$
declare
    v_claim record;
    v_work record;
    v_count int := 0;
begin
    for v_claim in
        select c.work_id, c.lease from onceward.external_claims c
         where c.expires_at < clock_timestamp() order by c.expires_at limit 100 for update skip locked
    loop
        select w.id, w.claimed_at, w.crashes into v_work from onceward.work w
         where w.id = v_claim.work_id and w.lease = v_claim.lease for update skip locked;
        if found then
            perform onceward.settle(
                v_claim.work_id, v_claim.lease, null, 'crashed', v_work.claimed_at, null,
                jsonb_build_object('type', 'WorkerLost', 'message', 'the program that held the job let its claim expire',
                                   'reason', 'worker_lost'),
                onceward.now() + make_interval(secs => least(30, v_work.crashes * 5)), 'worker_lost');
            v_count := v_count + 1;
        elsif exists (select from onceward.work w where w.id = v_claim.work_id and w.lease = v_claim.lease) then
            continue;
        end if;
        delete from onceward.external_claims c where c.work_id = v_claim.work_id and c.lease = v_claim.lease;
    end loop;
    return v_count;
end
$$;
