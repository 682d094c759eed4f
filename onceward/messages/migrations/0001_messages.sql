-- Notices for administrators: rows that any part writes in its own transaction and that messages turns into mail,
-- Slack and dashboard entries, a whole storm into one.

create table onceward.notices (
    id bigint primary key default nextval('onceward.ids'),
    organization_id uuid,
    type text not null,
    severity text not null check (severity in ('info', 'warn', 'error', 'fatal')),
    title text not null,
    details jsonb not null default '{}',
    channels text[],                        -- null: mail, Slack and dashboard
    audience text not null default 'admin' check (audience in ('admin', 'fraud', 'accounting', 'security')),
    group_key text not null,                -- notices of one group go out together
    caused_by bigint,
    created_at timestamptz not null default onceward.now(),
    told_at timestamptz,                    -- when it became part of a message
    told_in bigint                          -- which notification that was
);
comment on table onceward.notices is 'What administrators should know. Written with what it is about, told by the notifier.';
create index notices_untold on onceward.notices (group_key, id) where told_at is null;
create index notices_told on onceward.notices (group_key, told_at desc) where told_at is not null;
select onceward.protect('onceward.notices');

create function onceward.notify(
    p_type text, p_severity text, p_title text, p_details jsonb default '{}', p_channels text[] default null,
    p_audience text default 'admin', p_group text default null
) returns bigint language sql as $$
    insert into onceward.notices (organization_id, type, severity, title, details, channels, audience, group_key, caused_by)
    values (onceward.organization(), p_type,
            case lower(p_severity) when 'warning' then 'warn' when 'high' then 'error' when 'critical' then 'fatal'
                 else lower(p_severity) end,
            left(p_title, 500), coalesce(p_details, '{}'), p_channels, p_audience, coalesce(p_group, p_type),
            onceward.cause())
    returning id
$$;
comment on function onceward.notify(text, text, text, jsonb, text[], text, text) is
    'Tell the administrators, if and only if this transaction commits. Notices with the same group share a message.';

create function onceward.notice_dead_letter() returns trigger
    language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if new.kind = 'message' and exists (
        select from onceward.messages m join onceward.notifications n on n.id = m.notification
         where m.id = new.id and (n.round = 1 or n.type in ('DEAD_LETTER', 'CRON_FAILURE'))) then
        return null;    -- it is tried once more; and an alarm about alarms that cannot be sent would never end
    end if;
    insert into onceward.notices (organization_id, type, severity, title, details, group_key, caused_by)
    values (new.organization_id, 'DEAD_LETTER', 'error', 'Dead letter: ' || new.task,
            jsonb_build_object('id', new.id, 'kind', new.kind, 'task', new.task, 'reason', new.dead_reason),
            'dead-letters', new.id);
    return null;
end
$$;
revoke all on function onceward.notice_dead_letter() from public;
-- Fires only for statements that set the column: claims and acknowledgements pay nothing.
create trigger notice_dead_letter after update of dead_reason on onceward.work
    for each row when (new.dead_reason is not null and old.dead_reason is null)
    execute function onceward.notice_dead_letter();

-- Messages: one row is queue entry, timer, dedupe key and record. The work row beside it lives until it is sent.

create table onceward.templates (
    organization_id uuid,
    name text not null,
    version text not null,                  -- hash of the content: the same text is the same version on every node
    content jsonb not null,
    created_at timestamptz not null default onceward.now()
);
create unique index templates_version on onceward.templates
    (coalesce(organization_id, '00000000-0000-0000-0000-000000000000'), name, version);
comment on table onceward.templates is
    'Every version of a template that an organization queued a message with: an edit does not change what is queued already.';
select onceward.protect('onceward.templates');
revoke update, delete on onceward.templates from onceward_app;

create table onceward.recipients (
    organization_id uuid,
    ref text not null,                      -- the application's name for the person
    email text,
    phone text,
    whatsapp text,
    whatsapp_group text,
    slack text,
    push jsonb,                             -- endpoint, p256dh, auth
    locale text,
    timezone text,
    preferred_channel text,
    destination text not null default 'individual' check (destination in ('individual', 'group')),
    quiet_from time,
    quiet_to time,
    heard_at timestamptz,                   -- last message from them: opens WhatsApp's window of 24 hours
    updated_at timestamptz not null default onceward.now()
);
create unique index recipients_ref on onceward.recipients
    (coalesce(organization_id, '00000000-0000-0000-0000-000000000000'), ref);
create index recipients_whatsapp on onceward.recipients (whatsapp) where whatsapp is not null;
select onceward.protect('onceward.recipients');

create table onceward.opt_outs (
    organization_id uuid,
    recipient text not null,                -- a ref, an address in lower case, or `erased:` and its onceward.person_hash
    channel text not null default '*',
    category text not null default '*',
    source text not null,
    created_at timestamptz not null default onceward.now()
);
create unique index opt_outs_key on onceward.opt_outs
    (coalesce(organization_id, '00000000-0000-0000-0000-000000000000'), recipient, channel, category);
select onceward.protect('onceward.opt_outs');

create table onceward.notifications (
    id bigint primary key,
    organization_id uuid,
    type text not null,
    severity text not null check (severity in ('info', 'warn', 'error', 'fatal')),
    channels text[] not null,
    recipients int not null,
    round smallint not null default 1,      -- 2: failed channels are tried once more
    remaining int not null,
    sent int not null default 0,
    failed int not null default 0,
    key text,
    caused_by bigint,
    created_at timestamptz not null default onceward.now(),
    finished_at timestamptz
);
comment on table onceward.notifications is 'One thing said over several channels, and what came of all of them together.';
create unique index notifications_key on onceward.notifications
    (coalesce(organization_id, '00000000-0000-0000-0000-000000000000'), key) where key is not null;
select onceward.protect('onceward.notifications');

create table onceward.messages (
    id bigint primary key,
    organization_id uuid,
    key text not null,                      -- kept for ever: the same key twice is one message
    channel text not null,
    template text not null,
    version text not null,
    category text not null default 'transactional',
    data jsonb,
    locale text,
    timezone text,
    recipient text not null,                -- a ref, or the address itself
    address text,                           -- null: looked up by ref when it is sent
    attachments jsonb,                      -- files of the file store: path, name, content_type, inline
    policy text not null default 'quick',
    scheduled_for timestamptz,
    notification bigint,
    token uuid,                             -- names this message in its unsubscribe link
    status text not null default 'pending' check (status in
        ('pending', 'processing', 'success', 'failed', 'dead_letter', 'cancelled', 'unknown')),
    reason text,                            -- why it was not sent
    sending bigint,                         -- the lease under which the latest send began, until it is answered
    sending_since timestamptz,
    unsure_since timestamptz,               -- when the first send began that was never answered; later tries do not clear it
    blind boolean,                          -- that send can be neither repeated nor looked up
    attempts smallint not null default 0,
    reference text,                         -- what the service calls it
    delivery text,                          -- what the service told later: delivered, read, bounced
    sent_at timestamptz,
    caused_by bigint,
    created_at timestamptz not null default onceward.now()
) with (fillfactor = 85);
comment on table onceward.messages is 'What is said to whom. The text is made when it is sent, from the version it was queued with.';
create unique index messages_key on onceward.messages
    (coalesce(organization_id, '00000000-0000-0000-0000-000000000000'), key);
create index messages_caused_by on onceward.messages (caused_by) where caused_by is not null;
create index messages_notification on onceward.messages (notification) where notification is not null;
create index messages_token on onceward.messages (token) where token is not null;
create index messages_reference on onceward.messages (reference) where reference is not null;
create index messages_recipient on onceward.messages (recipient, id desc);
select onceward.protect('onceward.messages');

create table onceward.dashboard_messages (
    id bigint primary key,
    organization_id uuid,
    recipient text not null,
    type text not null,
    severity text not null,
    title text not null,
    body text not null,
    created_at timestamptz not null default onceward.now(),
    read_at timestamptz
);
create index dashboard_messages_unread on onceward.dashboard_messages (recipient, id desc) where read_at is null;
select onceward.protect('onceward.dashboard_messages');

-- A channel that cannot be reached is parked: its queue is not claimed from, and nothing uses up attempts.
alter table onceward.queues
    add column parked_until timestamptz,
    add column parked_for text,
    add column failures int not null default 0;

create table onceward.send_slots (
    scope text primary key,                 -- channel, sender or recipient under a limit
    next_at timestamptz not null            -- when the next send may begin
) with (fillfactor = 50);
grant select, insert, update, delete on onceward.send_slots to onceward_engine;

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

-- What an event caused is found by its cause: `onceward trace` must not read a whole table for it.

create index notices_caused_by on onceward.notices (caused_by) where caused_by is not null;
create index notifications_caused_by on onceward.notifications (caused_by) where caused_by is not null;
