-- Open an account, or return the open one. The same code with another kind or bound raises OW110.
create or replace function onceward.ledger_open(p_code text, p_currency text, p_kind text, p_bounded boolean, p_name text)
    returns bigint
    language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    org uuid := onceward.required_organization();
    account onceward.ledger_accounts;
begin
    insert into onceward.ledger_accounts (organization_id, code, currency, kind, bounded, name, caused_by)
    values (org, p_code, p_currency, p_kind, p_bounded, p_name, onceward.cause())
    on conflict (organization_id, code, currency) do nothing
    returning * into account;
    if account.id is not null then
        if p_bounded then
            insert into onceward.ledger_bounds (account_id, organization_id) values (account.id, org);
        end if;
        return account.id;
    end if;
    select * into account from onceward.ledger_accounts
    where organization_id = org and code = p_code and currency = p_currency;
    if (account.kind, account.bounded) is distinct from (p_kind, p_bounded) then
        raise exception 'account % in % exists already: % and %', p_code, p_currency, account.kind,
            case when account.bounded then 'bounded' else 'not bounded' end using errcode = 'OW110';
    end if;
    return account.id;
end
$$;

comment on function onceward.ledger_open(text, text, text, boolean, text) is
    'Open an account, or return the open one. The same code with another kind or bound raises OW110.';

revoke all on function onceward.ledger_open(text, text, text, boolean, text) from public;
grant execute on function onceward.ledger_open(text, text, text, boolean, text) to onceward_app, onceward_engine;
