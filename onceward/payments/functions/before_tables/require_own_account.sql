-- Refuse a row with the payment account of another organization. A foreign key cannot say it: accounts of the installation are shared.
create or replace function onceward.require_own_account() returns trigger
    language plpgsql as $$
begin
    if not exists (select from onceward.payment_accounts a
                    where a.id = new.account_id
                      and (a.organization_id is null or a.organization_id = new.organization_id)) then
        raise foreign_key_violation using message = format('payment account %s is not an account of the organization', new.account_id);
    end if;
    return new;
end
$$;

comment on function onceward.require_own_account() is
    'Refuse a row with the payment account of another organization. A foreign key cannot say it: accounts of the installation are shared.';
