-- Update the status of a message in the transaction that settles its work.
create or replace function onceward.settled_message(p_id bigint, p_outcome text, p_number int, p_result jsonb, p_error jsonb)
    returns void language plpgsql as $$
declare
    v onceward.messages;
    v_status text;
    v_reason text;
    v_lost boolean := false;
    v_earlier smallint;
begin
    select * into v from onceward.messages m where m.id = p_id for update;
    if not found then
        return;
    end if;
    v_status := case p_outcome
        when 'success' then case when p_result ->> 'suppressed' = 'expired' then 'expired'
                            when p_result ? 'suppressed' then 'cancelled' else 'success' end
        when 'retry' then 'pending' when 'snoozed' then 'pending' when 'crashed' then 'pending'
        when 'discarded' then 'cancelled'
        else p_outcome end;
    v_reason := case when v_status = 'cancelled' then coalesce(p_result ->> 'suppressed', p_error ->> 'message', p_outcome)
                     when v_status <> 'success' then coalesce(p_error ->> 'message', p_error ->> 'reason') end;
    -- The worker died or was stopped during a send: the message may not be sent again unless somebody asks for it.
    if v.sending is not null and v.blind and p_outcome in ('crashed', 'cancelled', 'discarded')
       or v.sending is not null and v.blind and p_outcome = 'dead_letter'
          and p_error ->> 'reason' in ('worker_lost', 'connection_lost') then
        v_status := 'unknown';
        v_reason := 'the worker stopped while it was being sent';
        v_lost := p_outcome in ('crashed', 'dead_letter');
    end if;
    if v_lost then
        delete from onceward.work w where w.id = p_id returning w.earlier into v_earlier;
        perform onceward.record_attempts(array[row(
            p_id, v.organization_id, p_number, 'message', 'message:' || v.channel, 'unknown', null, null, clock_timestamp(), null,
            jsonb_build_object('type', 'WorkerLost', 'message', v_reason), v_earlier
        )::onceward.attempt]);
    end if;
    update onceward.messages m
       set status = v_status,
           reason = left(v_reason, 500),
           attempts = case when p_outcome = 'snoozed' then m.attempts else p_number end,
           reference = coalesce(p_result ->> 'reference', m.reference),
           sent_at = case when v_status = 'success' then onceward.now() else m.sent_at end,
           -- If the service answered, or nothing was sent, this send is certainly over. That says nothing about an earlier send
           -- without an answer: only a success settles that one too.
           sending = case when v_status = 'success' or p_error ->> 'type' in ('Declined', 'MessageRejected', 'MessageParked') then null
                          else m.sending end,
           unsure_since = case when v_status <> 'success' then m.unsure_since end
     where m.id = p_id;
    -- The message waits for a refused account or template. It need not wait if that was repaired since the message was loaded.
    -- The lock makes the repair wait for this commit, so that it finds the message.
    if p_outcome = 'snoozed' and p_error ? 'trouble' then
        perform from onceward.account_troubles t where t.id = (p_error ->> 'trouble')::bigint for key share;
        if not found then
            update onceward.work w set sort_at = onceward.now() where w.id = p_id and w.lease is null;
        end if;
    end if;
    if v.notification is not null and v.status in ('pending', 'processing') and v_status not in ('pending', 'processing') then
        perform onceward.finish_notification(p_id, v.notification, v_status = 'success');
    end if;
end
$$;
