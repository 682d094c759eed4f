-- Sending: a slot under the limits, permission to begin, and what became of it.

create function onceward.reserve_send(
    p_scopes text[], p_every_s double precision[], p_patience_s double precision[],
    out wait_s double precision, out reserved boolean
) language plpgsql as $$
-- One moment at which all limits allow a send. Each scope moves on by its own interval, so that nobody gets the same
-- moment twice. Beyond the patience of a scope nothing is reserved: the wait alone is told.
declare
    v_now timestamptz;
    v_at timestamptz;
    v_patient boolean := true;
    v record;
begin
    insert into onceward.send_slots (scope, next_at)
    select s.scope, '-infinity' from unnest(p_scopes) as s (scope) order by s.scope
    on conflict do nothing;
    perform from onceward.send_slots where scope = any(p_scopes) order by scope for update;
    v_now := clock_timestamp();             -- after the locks: two callers must not read the same moment
    v_at := v_now;
    for v in
        select s.next_at, l.patience_s
          from unnest(p_scopes, p_patience_s) as l (scope, patience_s) join onceward.send_slots s using (scope)
    loop
        v_at := greatest(v_at, v.next_at);
        v_patient := v_patient and (v.next_at <= v_now + make_interval(secs => v.patience_s));
    end loop;
    reserved := v_patient;
    wait_s := extract(epoch from v_at - v_now);
    if reserved then
        update onceward.send_slots s
           set next_at = v_at + make_interval(secs => l.every_s)
          from unnest(p_scopes, p_every_s) as l (scope, every_s)
         where s.scope = l.scope;
    end if;
end
$$;

create function onceward.begin_send(p_id bigint, p_lease bigint, p_blind boolean, p_again boolean default false)
    returns text language plpgsql as $$
-- The last look before a send. 'go' is written down first: if nothing more is heard, it may have been sent.
-- 'unsure': an earlier send was never answered; `p_again` says that the caller knows and may send all the same.
declare
    v record;
    v_unsure_since timestamptz;
    v_address text;
begin
    select m.*, w.cancel into v
      from onceward.messages m join onceward.work w on w.id = m.id
     where m.id = p_id and w.lease = p_lease
       for update of m;
    if not found then
        return 'superseded';
    end if;
    v_unsure_since := coalesce(v.unsure_since, case when v.sending <> p_lease then v.sending_since end);
    if v_unsure_since is not null and not p_again then
        return 'unsure';
    end if;
    if v.cancel then
        return 'cancelled';
    end if;
    if v.category <> 'transactional' then
        select case v.channel when 'email' then r.email when 'sms' then r.phone when 'whatsapp' then r.whatsapp end
          into v_address from onceward.recipients r
         where r.ref = v.recipient and r.organization_id is not distinct from v.organization_id;
        if exists (
            select from onceward.opt_outs o
             where o.organization_id is not distinct from v.organization_id
               -- Of somebody who was erased only hashes are left; they still want nothing.
               and o.recipient in (v.recipient, lower(v.address), lower(v_address),
                   'erased:' || onceward.person_hash(v.recipient), 'erased:' || onceward.person_hash(v.address),
                   'erased:' || onceward.person_hash(v_address))
               and o.channel in ('*', v.channel) and o.category in ('*', v.category)) then
            return 'opted_out';
        end if;
    end if;
    update onceward.messages
       set sending = p_lease, sending_since = clock_timestamp(), unsure_since = v_unsure_since, blind = p_blind, status = 'processing'
     where id = p_id;
    return 'go';
end
$$;

create function onceward.finish_notification(p_message bigint, p_notification bigint, p_sent boolean) returns void
    language plpgsql as $$
-- One message of a notification is over. When all are, those that failed are tried once more, five minutes later.
declare
    v onceward.notifications;
begin
    update onceward.notifications n
       set remaining = n.remaining - 1, sent = n.sent + case when p_sent then 1 else 0 end,
           failed = n.failed + case when p_sent then 0 else 1 end
     where n.id = p_notification
    returning * into v;
    if v.remaining > 0 then
        return;
    end if;
    if v.round = 1 and v.failed > 0 then
        with again as (
            update onceward.work w
               set dead_reason = null, dead_at = null, attempts = 0, crashes = 0, max_attempts = 1,
                   sort_at = onceward.now() + interval '5 minutes'
              from onceward.messages m
             where m.notification = p_notification and m.status = 'dead_letter' and w.id = m.id
            returning w.id
        ), pending as (
            update onceward.messages m set status = 'pending' from again where m.id = again.id returning m.id
        )
        update onceward.notifications n
           set round = 2, remaining = (select count(*) from pending), failed = n.failed - (select count(*) from pending)
         where n.id = p_notification
        returning * into v;
        if v.remaining > 0 then
            return;
        end if;
    end if;
    update onceward.notifications n set finished_at = onceward.now() where n.id = p_notification;
end
$$;

create function onceward.settled_message(p_id bigint, p_outcome text, p_number int, p_result jsonb, p_error jsonb)
    returns void language plpgsql as $$
-- Keep the status of a message true, in the transaction that settles its work.
declare
    v onceward.messages;
    v_status text;
    v_reason text;
    v_lost boolean := false;
begin
    select * into v from onceward.messages m where m.id = p_id for update;
    if not found then
        return;
    end if;
    v_status := case p_outcome
        when 'success' then case when p_result ? 'suppressed' then 'cancelled' else 'success' end
        when 'retry' then 'pending' when 'snoozed' then 'pending' when 'crashed' then 'pending'
        when 'discarded' then 'cancelled'
        else p_outcome end;
    v_reason := case when v_status = 'cancelled' then coalesce(p_result ->> 'suppressed', p_error ->> 'message', p_outcome)
                     when v_status <> 'success' then coalesce(p_error ->> 'message', p_error ->> 'reason') end;
    -- A send was begun and its worker died, or was told to stop: nobody may send it a second time unasked.
    if v.sending is not null and v.blind and p_outcome in ('crashed', 'cancelled', 'discarded')
       or v.sending is not null and v.blind and p_outcome = 'dead_letter'
          and p_error ->> 'reason' in ('worker_lost', 'connection_lost') then
        v_status := 'unknown';
        v_reason := 'the worker stopped while it was being sent';
        v_lost := p_outcome in ('crashed', 'dead_letter');
    end if;
    if v_lost then
        delete from onceward.work w where w.id = p_id;
        insert into onceward.attempts (work_id, organization_id, number, kind, task, outcome, error)
        values (p_id, v.organization_id, p_number, 'message', 'message:' || v.channel, 'unknown',
                jsonb_build_object('type', 'WorkerLost', 'message', v_reason));
    end if;
    update onceward.messages m
       set status = v_status,
           reason = left(v_reason, 500),
           attempts = case when p_outcome = 'snoozed' then m.attempts else p_number end,
           reference = coalesce(p_result ->> 'reference', m.reference),
           sent_at = case when v_status = 'success' then onceward.now() else m.sent_at end,
           -- An answer of the service, or its silence before anything was sent, makes it certain that nothing of this send is
           -- under way. It says nothing of an earlier send that was not answered: only a success settles that one too.
           sending = case when v_status = 'success' or p_error ->> 'type' in ('Declined', 'Rejected', 'Parked') then null
                          else m.sending end,
           unsure_since = case when v_status <> 'success' then m.unsure_since end
     where m.id = p_id;
    if v.notification is not null and v.status in ('pending', 'processing') and v_status not in ('pending', 'processing') then
        perform onceward.finish_notification(p_id, v.notification, v_status = 'success');
    end if;
end
$$;

create view onceward.message_outcomes as
    select id, organization_id, key, channel, template, status, reason, attempts, scheduled_for, sent_at, created_at,
           case status when 'success' then coalesce(delivery, 'sent') when 'dead_letter' then 'failed' else status end as shown
      from onceward.messages;
comment on view onceward.message_outcomes is 'Messages under the names that people use: sent, delivered, failed.';
alter view onceward.message_outcomes set (security_invoker = true);
grant select on onceward.message_outcomes to onceward_app, onceward_engine;
