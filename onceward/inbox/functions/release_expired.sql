-- Take back claims through SQL that are too old, because such claims have no heartbeat. Each one counts as an attempt.
create or replace function webhook.release_expired(p_older_than interval default null) returns int
    language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_age interval := coalesce(p_older_than, (select make_interval(secs => x.seconds) from onceward.sql_claim_expiry x));
    v record;
    v_count int := 0;
    v_error jsonb := '{"type": "WorkerLost", "reason": "worker_lost", "said": "worker_lost: the claim expired"}';
begin
    for v in
        select w.id, w.lease, w.claimed_at, w.attempts, coalesce(w.max_attempts, 5) as most
          from onceward.work w
         where w.queue = 'external' and w.lease is not null and w.claimed_at < clock_timestamp() - v_age
         order by w.id for update skip locked
    loop
        perform onceward.settle(v.id, v.lease, 0, case when v.attempts + 1 >= v.most then 'dead_letter' else 'retry' end,
                                v.claimed_at, null, v_error, onceward.now(), 'worker_lost');
        v_count := v_count + 1;
    end loop;
    return v_count;
end
$$;

revoke all on function webhook.release_expired(interval) from public;
grant execute on function webhook.release_expired(interval) to onceward_sql_worker, onceward_engine;
