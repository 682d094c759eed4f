-- Check for the last time whether messages may be sent, and record the sends that begin, in one commit. 'go' is recorded first: if no
-- answer follows, the message may have been sent. Messages are locked in the order of ids, so that two commits cannot wait for each other.
-- 'unsure': an earlier send got no answer. `again` means that the caller knows this and may send anyway.
-- 'expired': the time until which the message may be sent has passed.
-- 'erased': the recipient was erased after the transaction that queued the message had begun. The message is blanked.
-- 'parked': the service has refused the account or template since the message was loaded. A probe is not stopped.
create or replace function onceward.begin_sends(
    p_ids bigint[], p_leases bigint[], p_blind boolean[], p_again boolean[], p_owned boolean[], p_languages text[], p_probes boolean[]
) returns table (number bigint, verdict text) language plpgsql volatile as $$
#variable_conflict use_column
begin
    -- Locked first, and judged by a second statement: a volatile function takes a new snapshot for each. An opt-out or an erasure that is
    -- committed while this one waits for a lock of any message is obeyed for all of them.
    perform from onceward.messages m where m.id = any(p_ids) order by m.id for update;
    return query
    with asked as materialized (
        select * from unnest(p_ids, p_leases, p_blind, p_again, p_owned, p_languages, p_probes)
                 with ordinality as u (id, lease, blind, again, owned, language, probes, number)
    ), held as materialized (
        select a.number, a.lease, a.blind, a.again, a.owned, a.language, a.probes, w.cancel, m.id, m.organization_id, m.channel,
               m.category, m.template, m.recipient, m.address, m.expires_at, m.created_at,
               coalesce(m.unsure_since, case when m.sending <> a.lease then m.sending_since end) as unsure_since
          from asked a join onceward.messages m on m.id = a.id join onceward.work w on w.id = a.id and w.lease = a.lease
    ), judged as materialized (
        select l.*, e.person_hash as erased, case
                   when l.unsure_since is not null and not l.again then 'unsure'
                   when l.cancel then 'cancelled'
                   when l.expires_at <= onceward.now() then 'expired'
                   when e.person_hash is not null then 'erased'
                   when l.channel = 'email' and exists (
                       select from onceward.suppressions s
                        where coalesce(s.organization_id, '00000000-0000-0000-0000-000000000000')
                              = coalesce(l.organization_id, '00000000-0000-0000-0000-000000000000')
                          and s.address_hash = onceward.person_hash(coalesce(l.address, r.address))) then 'suppressed_address'
                   when l.category <> 'transactional' and exists (
                       select from onceward.opt_outs o
                        where (o.organization_id is not distinct from l.organization_id
                               -- STOP to a number of the installation ends everything that its account sends on the channel.
                               or o.organization_id is null and not l.owned and o.source = 'reply' and o.channel = l.channel)
                          -- Of an erased person only hashes are left, and the opt-out stays valid.
                          and o.recipient in (l.recipient, lower(l.address), lower(r.address),
                              'erased:' || onceward.person_hash(l.recipient), 'erased:' || onceward.person_hash(l.address),
                              'erased:' || onceward.person_hash(r.address))
                          and o.channel in ('*', l.channel) and o.category in ('*', l.category)) then 'opted_out'
                   -- Nothing is lost if a message meets a refused account: it saves a useless call. So an earlier send is not stopped.
                   when not l.probes and l.unsure_since is null and exists (
                       select from onceward.account_troubles t
                        where t.channel = l.channel
                          and t.organization_id is not distinct from case when l.owned then l.organization_id end
                          and (t.template is null or t.template = l.template and t.language = l.language)) then 'parked'
                   else 'go' end as verdict
          from held l
          left join lateral (
              select case l.channel when 'email' then c.email when 'sms' then c.phone when 'whatsapp' then coalesce(c.whatsapp, c.phone)
                                    when 'slack' then c.slack end as address
                from onceward.recipients c
               where (l.address is null or l.category <> 'transactional') and c.ref = l.recipient
                 and coalesce(c.organization_id, '00000000-0000-0000-0000-000000000000')
                     = coalesce(l.organization_id, '00000000-0000-0000-0000-000000000000')
          ) r on true
          -- The transaction may have read the person before the erasure and committed after it. The erasure did not see its message.
          left join lateral (
              select p.person_hash
                from onceward.erasures p
               where p.person_hash in (onceward.person_hash(l.recipient), onceward.person_hash(l.address), onceward.person_hash(r.address))
                 and p.organization_id is not distinct from l.organization_id and p.erased_at > l.created_at
               limit 1
          ) e on true
    ), begun as (
        update onceward.messages m
           set sending = j.lease, sending_since = onceward.now(), unsure_since = j.unsure_since, blind = j.blind, status = 'processing'
          from judged j where m.id = j.id and j.verdict = 'go'
    ), blanked as (
        update onceward.messages m
           set recipient = 'erased:' || j.erased, address = null, data = null, attachments = null, context = null
          from judged j where m.id = j.id and j.verdict = 'erased'
    )
    select a.number, coalesce(j.verdict, 'superseded') as verdict from asked a left join judged j on j.number = a.number;
end
$$;
