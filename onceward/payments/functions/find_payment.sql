-- Return the payment that a report of this source is about: by our id or by a name at the service, and of the source's account only.
-- With `p_act`, the transaction acts for the organization of that payment from then on.
create or replace function onceward.find_payment(p_source text, p_connected text, p_payment uuid, p_names text[], p_act boolean)
    returns table (account_id uuid, payment_id uuid, organization_id uuid, subject_type text, subject_id text)
    language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
begin
    select a.id into account_id from onceward.payment_accounts a
     where a.source = p_source and a.connected_account is not distinct from p_connected;
    if account_id is null then
        return;
    end if;
    select p.id, p.organization_id, p.subject_type, p.subject_id into payment_id, organization_id, subject_type, subject_id
      from onceward.payment_names n join onceward.payments p on p.id = n.payment_id
     where n.account_id = find_payment.account_id and n.name = any (p_names) limit 1;
    if payment_id is null then
        select p.id, p.organization_id, p.subject_type, p.subject_id into payment_id, organization_id, subject_type, subject_id
          from onceward.payments p where p.id = p_payment and p.account_id = find_payment.account_id;
    end if;
    if p_act and organization_id is not null and not onceward.act_for(organization_id) then
        raise exception 'organization % of payment % does not exist', organization_id, payment_id;
    end if;
    return next;
end
$$;

revoke all on function onceward.find_payment(text, text, uuid, text[], boolean) from public;
grant execute on function onceward.find_payment(text, text, uuid, text[], boolean) to onceward_app, onceward_engine;
