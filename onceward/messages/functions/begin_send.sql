-- Check for the last time whether a message may be sent. 'go' is recorded first: if no answer follows, the message may have
-- been sent.
-- 'unsure': an earlier send got no answer. `p_again` means that the caller knows this and may send anyway.
-- 'expired': the time until which the message may be sent has passed.
-- 'erased': the recipient was erased after the transaction that queued the message had begun. The message is blanked.
create or replace function onceward.begin_send(p_id bigint, p_lease bigint, p_blind boolean, p_again boolean default false)
    returns text language plpgsql as $$
declare
    v record;
    v_unsure_since timestamptz;
    v_address text;
    v_erased text;
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
    if v.expires_at <= onceward.now() then
        return 'expired';
    end if;
    if v.address is null or v.category <> 'transactional' then
        select case v.channel when 'email' then r.email when 'sms' then r.phone when 'whatsapp' then coalesce(r.whatsapp, r.phone)
                              when 'slack' then r.slack end
          into v_address from onceward.recipients r
         where r.ref = v.recipient
           and coalesce(r.organization_id, '00000000-0000-0000-0000-000000000000')
               = coalesce(v.organization_id, '00000000-0000-0000-0000-000000000000');
    end if;
    -- The transaction may have read the person before the erasure and committed after it. The erasure did not see its message.
    select e.person_hash into v_erased
      from onceward.erasures e
     where e.person_hash in (onceward.person_hash(v.recipient), onceward.person_hash(v.address), onceward.person_hash(v_address))
       and e.organization_id is not distinct from v.organization_id and e.erased_at > v.created_at
     limit 1;
    if found then
        update onceward.messages
           set recipient = 'erased:' || v_erased, address = null, data = null, attachments = null, context = null
         where id = p_id;
        return 'erased';
    end if;
    if v.channel = 'email' and exists (
        select from onceward.suppressions s
         where coalesce(s.organization_id, '00000000-0000-0000-0000-000000000000')
               = coalesce(v.organization_id, '00000000-0000-0000-0000-000000000000')
           and s.address_hash = onceward.person_hash(coalesce(v.address, v_address))) then
        return 'suppressed_address';
    end if;
    if v.category <> 'transactional' then
        if exists (
            select from onceward.opt_outs o
             where o.organization_id is not distinct from v.organization_id
               -- Of an erased person only hashes are left, and the opt-out stays valid.
               and o.recipient in (v.recipient, lower(v.address), lower(v_address),
                   'erased:' || onceward.person_hash(v.recipient), 'erased:' || onceward.person_hash(v.address),
                   'erased:' || onceward.person_hash(v_address))
               and o.channel in ('*', v.channel) and o.category in ('*', v.category)) then
            return 'opted_out';
        end if;
    end if;
    update onceward.messages
       set sending = p_lease, sending_since = onceward.now(), unsure_since = v_unsure_since, blind = p_blind, status = 'processing'
     where id = p_id;
    return 'go';
end
$$;
