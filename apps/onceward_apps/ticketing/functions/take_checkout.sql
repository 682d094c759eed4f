-- Lock a checkout and let this transaction act for its organization, which is returned. Null: there is no such checkout. A
-- transaction that acts for another organization locks nothing.
-- The lock of the checkout serializes webhook, return page and reconciler. The event is locked `for key share`: sales do not
-- wait for each other, and cancelling the event waits for them.
create or replace function ticketing.take_checkout(p_checkout uuid) returns uuid
    language plpgsql as $$
declare
    org uuid := ticketing.organization_of('checkout', p_checkout);
begin
    if org is null or onceward.organization() <> org then
        return org;
    end if;
    if onceward.organization() is null and not onceward.act_for(org) then
        raise exception 'checkout % belongs to organization %, which does not exist', p_checkout, org;
    end if;
    perform 1 from ticketing.checkouts c join ticketing.events e on e.id = c.event_id
    where c.id = p_checkout for update of c for key share of e;
    return org;
end
$$;

revoke all on function ticketing.take_checkout(uuid) from public;
grant execute on function ticketing.take_checkout(uuid) to onceward_app, onceward_engine;
