-- Return the payment that a report of this source is about: by our id or by a name at the service, and of the source's account only.
create or replace function onceward.find_payment(from_source text, connected text, payment uuid, names text[])
    returns table (account_id uuid, payment_id uuid, organization_id uuid, subject_type text, subject_id text)
    language sql stable security definer set search_path = pg_catalog, pg_temp as $$
    with account as (
        select a.id from onceward.payment_accounts a
         where a.source = from_source and a.connected_account is not distinct from connected
    ), named as (
        select p.id, p.organization_id, p.subject_type, p.subject_id, 1 as rank
          from onceward.payment_names n join onceward.payments p on p.id = n.payment_id
         where n.account_id = (select id from account) and n.name = any (names)
        union all
        select p.id, p.organization_id, p.subject_type, p.subject_id, 2
          from onceward.payments p where p.id = payment and p.account_id = (select id from account)
    )
    select account.id, named.id, named.organization_id, named.subject_type, named.subject_id
      from account left join lateral (select * from named order by rank limit 1) named on true
$$;

revoke all on function onceward.find_payment(text, text, uuid, text[]) from public;
grant execute on function onceward.find_payment(text, text, uuid, text[]) to onceward_app, onceward_engine;
