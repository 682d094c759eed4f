-- Record what the app decided about money that arrived: decision, shares and journals. An accepted payment takes the place of the
-- other pages of its subject. Return the payment, the reports that came before its charge was known, and the payments that it replaces:
-- the caller closes their pages.
create or replace function onceward.decide_payment(
    p_payment uuid, p_decision text, p_reason text, p_shares jsonb, p_books jsonb, p_journals jsonb, p_names text[],
    out payment onceward.payments, out early jsonb, out replaced uuid[])
    language plpgsql as $$
begin
    update onceward.payments p
       set decision = p_decision, decided_reason = p_reason, booked_fee = p.fee,
           fee_bookings = p.fee_bookings + (p.fee <> p.booked_fee)::int,
           owed = case when p_decision = 'returned' then p.received else 0 end
     where p.id = p_payment
    returning p.* into payment;
    insert into onceward.payment_shares (payment_id, number, code, amount)
    select p_payment, s.n, s.value ->> 0, (s.value ->> 1)::bigint
      from jsonb_array_elements(p_shares) with ordinality s (value, n);
    if p_books is not null then
        perform onceward.post_payment_journals(p_payment, null, payment.currency, p_books, p_journals);
    end if;
    if p_decision = 'accepted' then
        with superseded as (
            update onceward.payments o set superseded_at = onceward.now(), close_at = least(o.close_at, onceward.now())
             where o.organization_id = payment.organization_id and o.subject_type = payment.subject_type
               and o.subject_id = payment.subject_id and o.id <> p_payment and o.status in ('created', 'open') and o.superseded_at is null
            returning o.id
        )
        select array_agg(u.id) into replaced from superseded u;
    end if;
    select jsonb_agg(jsonb_build_object('kind', e.kind, 'fact', e.fact)) into early
      from onceward.take_early_facts(payment.account_id, p_names) e;
end
$$;

revoke all on function onceward.decide_payment(uuid, text, text, jsonb, jsonb, jsonb, text[]) from public;
grant execute on function onceward.decide_payment(uuid, text, text, jsonb, jsonb, jsonb, text[]) to onceward_app, onceward_engine;
