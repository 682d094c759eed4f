-- Check for the last time whether a message may be sent. 'go' is recorded first: if no answer follows, the message may have
-- been sent.
-- 'unsure': an earlier send got no answer. `p_again` means that the caller knows this and may send anyway.
create or replace function onceward.begin_send(p_id bigint, p_lease bigint, p_blind boolean, p_again boolean default false)
    returns text language plpgsql as $$
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
               -- Of an erased person only hashes are left, and the opt-out stays valid.
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
