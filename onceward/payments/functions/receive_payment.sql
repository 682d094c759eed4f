-- Record money that arrived for a locked payment, with the names of its charge. The app decides about it in the same transaction.
create or replace function onceward.receive_payment(p_payment uuid, p_money jsonb, p_names text[], p_decision text)
    returns setof onceward.payments
    language plpgsql as $$
begin
    insert into onceward.payment_names (account_id, name, payment_id, organization_id)
    select p.account_id, n, p.id, p.organization_id from onceward.payments p, unnest(p_names) n where p.id = p_payment
    on conflict do nothing;
    return query
    update onceward.payments p
       set status = 'paid', charge = p_money ->> 'charge', received = (p_money ->> 'amount')::bigint,
           currency = p_money ->> 'currency', fee = (p_money ->> 'fee')::bigint, page = coalesce(p_money ->> 'page', p.page),
           decision = p_decision, paid_at = onceward.now(), ended_at = null, closed_at = onceward.now(), ask_at = null, asks = 0
     where p.id = p_payment
    returning p.*;
end
$$;

revoke all on function onceward.receive_payment(uuid, jsonb, text[], text) from public;
grant execute on function onceward.receive_payment(uuid, jsonb, text[], text) to onceward_app, onceward_engine;
