-- Return the account of the acting organization with this name, or the installation's; create the installation's if it is declared.
create or replace function onceward.payment_account(name text, service text, source text) returns onceward.payment_accounts
    language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    found_row onceward.payment_accounts;
begin
    select a.* into found_row from onceward.payment_accounts a
     where a.name = payment_account.name and (a.organization_id = onceward.organization() or a.organization_id is null)
     order by a.organization_id nulls last limit 1;
    if found_row.id is null and payment_account.service is not null then
        insert into onceward.payment_accounts (organization_id, name, service, source)
        values (null, payment_account.name, payment_account.service, payment_account.source)
        on conflict do nothing;
        select a.* into found_row from onceward.payment_accounts a
         where a.name = payment_account.name and a.organization_id is null;
    end if;
    return found_row;
end
$$;

revoke all on function onceward.payment_account(text, text, text) from public;
grant execute on function onceward.payment_account(text, text, text) to onceward_app, onceward_engine;
