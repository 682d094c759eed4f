-- Sell the items of a checkout that the caller has locked: convert the claims, post the entries that move no money of the buyer, then
-- write seats, tickets, holds and checkout. Nothing is sold if capacity refuses (`refusals`), or if a seat has another version than
-- the caller read (`is_sold` is false). A repeated call converts and posts nothing twice.
-- Arrays have one element for each item; a place without a seat has null. The plans, also those of sell_seats, are made once, and
-- use indexes: by default PostgreSQL plans a statement with an array in every call.
create or replace function ticketing.sell(
    p_checkout uuid, p_event uuid, p_claims bigint[], p_holds uuid[], p_items uuid[], p_sections uuid[], p_seats uuid[],
    p_versions int[], p_tickets uuid[], p_codes text[], p_user text, p_email text, p_name text,
    p_provider text, p_charge text, p_payment uuid, p_reference text, p_currency text, p_result jsonb,
    p_debits text[], p_credits text[], p_amounts bigint[],
    out refusals jsonb, out is_sold boolean, out journal_id bigint, out converted bigint, out capacity bigint, out held bigint,
    out sold bigint)
    language plpgsql set plan_cache_mode = force_generic_plan set enable_seqscan = off as $$
begin
    is_sold := false;
    refusals := (select r.refusals from onceward.capacity_renew(p_claims) r);
    if refusals is not null then
        return;
    end if;
    if p_amounts <> '{}' then
        journal_id := (
            select p.journal_id
            from onceward.ledger_post(
                format('checkout:%s:sale', p_checkout), p_debits, p_credits, p_amounts,
                array_fill(p_currency, array[cardinality(p_amounts)]), format('%s tickets', cardinality(p_tickets))) p);
    end if;

    is_sold := ticketing.sell_seats(p_seats, p_versions, p_tickets);
    if not is_sold then
        return;
    end if;
    insert into ticketing.tickets
        (id, event_id, section_id, seat_id, checkout_id, item_id, user_id, holder_email, holder_name, ticket_code,
         payment_reference)
    select w.id, p_event, w.section_id, w.seat_id, p_checkout, w.item_id, p_user, p_email, p_name, w.code, p_reference
    from unnest(p_tickets, p_sections, p_seats, p_items, p_codes) as w (id, section_id, seat_id, item_id, code);

    update ticketing.seat_holds h set status = 'converted', converted_at = onceward.now()
    where h.id = any (p_holds) and h.checkout_id = p_checkout and h.status <> 'converted';
    get diagnostics converted = row_count;
    -- Holds of other buyers for these seats, whose time had run out, end here. Look first: an update always runs its triggers.
    if exists (select from ticketing.seat_holds h where h.seat_id = any (p_seats) and h.status = 'active') then
        update ticketing.seat_holds h set status = 'expired' where h.seat_id = any (p_seats) and h.status = 'active';
    end if;

    update ticketing.checkouts c
    set status = 'completed', completed_at = onceward.now(), ended_at = onceward.now(), payment_reference = p_reference,
        provider = p_provider, provider_payment_id = p_charge, payment_id = p_payment, journal_id = sell.journal_id,
        result = p_result
    where c.id = p_checkout;

    select t.capacity, t.held, t.sold into capacity, held, sold
    from ticketing.occupancy(p_event) t;
end
$$;

revoke all on function ticketing.sell(uuid, uuid, bigint[], uuid[], uuid[], uuid[], uuid[], int[], uuid[], text[], text, text,
    text, text, text, uuid, text, text, jsonb, text[], text[], bigint[]) from public;
grant execute on function ticketing.sell(uuid, uuid, bigint[], uuid[], uuid[], uuid[], uuid[], int[], uuid[], text[], text, text,
    text, text, text, uuid, text, text, jsonb, text[], text[], bigint[]) to onceward_app, onceward_engine;
