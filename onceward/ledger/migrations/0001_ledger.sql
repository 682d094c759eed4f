-- Ledger: accounts, journals and their entries. An entry names one debit and one credit, so nothing can be out of balance.

create table onceward.ledger_accounts (
    id bigint not null default nextval('onceward.ids'),
    organization_id uuid not null default onceward.organization(),
    code text not null check (code ~ '^[A-Za-z0-9][A-Za-z0-9_.:/-]{0,99}$'),
    currency text not null check (currency ~ '^[A-Z]{3}$'),
    kind text not null check (kind in ('asset', 'liability', 'equity', 'revenue', 'expense')),
    name text,
    bounded boolean not null default false,       -- its balance may not fall below zero; posting to it takes a lock
    debit_normal boolean not null generated always as (kind in ('asset', 'expense')) stored,
    caused_by bigint,
    created_at timestamptz not null default onceward.now(),
    primary key (id, organization_id, currency),  -- what entries refer to: another organization or currency cannot match
    unique (organization_id, code, currency)
);
select onceward.protect('onceward.ledger_accounts');

create table onceward.ledger_journals (
    id bigint not null default nextval('onceward.ids'),
    organization_id uuid not null,
    key text not null check (length(key) between 1 and 200),
    kind text not null check (kind in ('posted', 'pending', 'settlement', 'void', 'reversal')),
    about bigint,                                 -- the journal that is settled, voided or reversed
    body bytea not null,                          -- digest of what was asked under the key
    entries int not null check ((entries = 0) = (kind = 'void')),
    total numeric not null,                       -- count and sum are kept here so that a missing entry is found
    memo text,
    caused_by bigint,
    created_at timestamptz not null default onceward.now(),
    primary key (id, organization_id),
    unique (organization_id, key),
    foreign key (about, organization_id) references onceward.ledger_journals (id, organization_id),
    check ((about is null) = (kind in ('posted', 'pending')))
);
create unique index ledger_pending_ends_once on onceward.ledger_journals (about) where kind in ('settlement', 'void');
create index ledger_journals_reversals on onceward.ledger_journals (about) where kind = 'reversal';
create index ledger_journals_caused_by on onceward.ledger_journals (caused_by) where caused_by is not null;
select onceward.protect('onceward.ledger_journals');

create sequence onceward.ledger_entry_ids;

create table onceward.ledger_entries (
    journal_id bigint not null,
    id bigint not null default nextval('onceward.ledger_entry_ids'),
    organization_id uuid not null,
    debit_id bigint not null,
    credit_id bigint not null,
    amount bigint not null,
    currency text not null,
    pending boolean not null,
    origin bigint,                                -- the entry that this one settles or reverses
    primary key (journal_id, id),
    constraint ledger_amount_in_range check (amount between 1 and 9007199254740991),
    constraint ledger_two_accounts check (debit_id <> credit_id),
    constraint ledger_own_journal foreign key (journal_id, organization_id)
        references onceward.ledger_journals (id, organization_id),
    constraint ledger_own_debit foreign key (debit_id, organization_id, currency)
        references onceward.ledger_accounts (id, organization_id, currency),
    constraint ledger_own_credit foreign key (credit_id, organization_id, currency)
        references onceward.ledger_accounts (id, organization_id, currency)
);
comment on constraint ledger_amount_in_range on onceward.ledger_entries is
    'Minor units; the upper end is what every JSON reader keeps exactly.';
create index ledger_entries_debit on onceward.ledger_entries (debit_id, id);
create index ledger_entries_credit on onceward.ledger_entries (credit_id, id);
create index ledger_entries_by_id on onceward.ledger_entries using brin (id);
select onceward.protect('onceward.ledger_entries');

-- Derived, and recomputed by `onceward ledger check`. ------------------------------------------------------------------

create table onceward.ledger_pending (
    journal_id bigint primary key,
    organization_id uuid not null,
    foreign key (journal_id, organization_id) references onceward.ledger_journals (id, organization_id)
);
comment on table onceward.ledger_pending is 'Pending journals that are neither settled nor voided yet.';
select onceward.protect('onceward.ledger_pending');

create table onceward.ledger_drawn (
    entry_id bigint primary key,
    organization_id uuid not null,
    amount bigint not null,
    drawn bigint not null,
    constraint ledger_not_overdrawn check (drawn between 1 and amount)
);
comment on table onceward.ledger_drawn is
    'How much of an entry has been reversed (or, if it was pending, settled): the check bounds it at every isolation level.';
select onceward.protect('onceward.ledger_drawn');

create table onceward.ledger_bounds (
    account_id bigint primary key,
    organization_id uuid not null,
    balance bigint not null default 0,
    reserved bigint not null default 0 check (reserved >= 0),
    constraint ledger_not_below_zero check (balance - reserved >= 0)
) with (fillfactor = 50);
comment on table onceward.ledger_bounds is 'One row for each bounded account, locked by those who post to it. Others have none.';
select onceward.protect('onceward.ledger_bounds');

create table onceward.ledger_horizon (
    one boolean primary key default true check (one),
    through bigint not null default 0,            -- entries up to this id are in the checkpoints, and no more can appear
    proposed bigint,
    barrier xid8                                  -- once every transaction older than this is over, `proposed` is safe
);
insert into onceward.ledger_horizon default values;
grant select on onceward.ledger_horizon to onceward_app, onceward_engine;

create table onceward.ledger_checkpoints (
    account_id bigint primary key,
    organization_id uuid not null,
    debits numeric not null,
    credits numeric not null
);
comment on table onceward.ledger_checkpoints is 'Sums of each account''s posted entries up to the horizon.';
select onceward.protect('onceward.ledger_checkpoints');

-- Read freely, written through functions only. -------------------------------------------------------------------------

revoke insert, update, delete on onceward.ledger_accounts, onceward.ledger_journals, onceward.ledger_entries,
    onceward.ledger_pending, onceward.ledger_drawn, onceward.ledger_bounds, onceward.ledger_checkpoints
    from onceward_app, onceward_engine;

create function onceward.ledger_refuse_change() returns trigger
    language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    raise exception '% is append-only: reverse the journal instead of changing it', tg_table_name using errcode = 'OW101';
end
$$;
create trigger append_only before update or delete or truncate on onceward.ledger_journals
    for each statement execute function onceward.ledger_refuse_change();
create trigger append_only before update or delete or truncate on onceward.ledger_entries
    for each statement execute function onceward.ledger_refuse_change();

create function onceward.ledger_refuse_account_change() returns trigger
    language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    raise exception 'an account keeps its code, currency, kind and bound for ever; only its name may change'
        using errcode = 'OW101';
end
$$;
create trigger append_only before update of id, organization_id, code, currency, kind, bounded
    on onceward.ledger_accounts
    for each statement execute function onceward.ledger_refuse_account_change();
create trigger never_deleted before delete or truncate on onceward.ledger_accounts
    for each statement execute function onceward.ledger_refuse_account_change();

create function onceward.ledger_draw_on() returns trigger
    language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    source onceward.ledger_entries;
    how text;
begin
    select e.* into source
    from onceward.ledger_journals j
    join onceward.ledger_entries e on e.journal_id = j.about and e.id = new.origin
    where j.id = new.journal_id and j.organization_id = new.organization_id;
    select kind into how from onceward.ledger_journals where id = new.journal_id;
    if source.id is null or source.currency <> new.currency or new.pending
       or (how = 'settlement' and (source.debit_id, source.credit_id, source.pending)
                                   is distinct from (new.debit_id, new.credit_id, true))
       or (how = 'reversal' and (source.debit_id, source.credit_id, source.pending)
                                 is distinct from (new.credit_id, new.debit_id, false))
       or how not in ('settlement', 'reversal') then
        raise exception 'entry % of journal % does not mirror entry %', new.id, new.journal_id, new.origin
            using errcode = 'OW102';
    end if;
    insert into onceward.ledger_drawn as d (entry_id, organization_id, amount, drawn)
    values (source.id, source.organization_id, source.amount, new.amount)
    on conflict (entry_id) do update set drawn = d.drawn + excluded.drawn;
    return null;
end
$$;
create trigger drawn_on after insert on onceward.ledger_entries
    for each row when (new.origin is not null) execute function onceward.ledger_draw_on();
revoke all on function onceward.ledger_refuse_change(), onceward.ledger_refuse_account_change(),
    onceward.ledger_draw_on() from public;

-- Balances: checkpoint + later entries. --------------------------------------------------------------------------------

create view onceward.ledger_balances with (security_invoker = true) as
select a.id as account_id, a.organization_id, a.code, a.currency, a.kind, a.name, a.bounded,
       s.debits, s.credits, p.debits as pending_debits, p.credits as pending_credits,
       case when a.debit_normal then s.debits - s.credits else s.credits - s.debits end as balance
from onceward.ledger_accounts a
cross join onceward.ledger_horizon h
left join onceward.ledger_checkpoints c on c.account_id = a.id
cross join lateral (
    select coalesce(c.debits, 0) + coalesce((
               select sum(e.amount) from onceward.ledger_entries e
               where e.debit_id = a.id and e.id > h.through and not e.pending), 0) as debits,
           coalesce(c.credits, 0) + coalesce((
               select sum(e.amount) from onceward.ledger_entries e
               where e.credit_id = a.id and e.id > h.through and not e.pending), 0) as credits
) s
cross join lateral (
    select coalesce(sum(e.amount) filter (where e.debit_id = a.id), 0) as debits,
           coalesce(sum(e.amount) filter (where e.credit_id = a.id), 0) as credits
    from onceward.ledger_pending o
    join onceward.ledger_entries e on e.journal_id = o.journal_id
    where o.organization_id = a.organization_id and a.id in (e.debit_id, e.credit_id)
) p;
comment on view onceward.ledger_balances is 'Every account with what was posted to it and what is pending.';
grant select on onceward.ledger_balances to onceward_app, onceward_engine;

-- The only ways to write to the ledger: open an account, post, draw (settle, void, reverse), checkpoint.

create function onceward.ledger_open(p_code text, p_currency text, p_kind text, p_bounded boolean, p_name text)
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
    'Open an account, or find it again. The same code with another kind or bound is an error.';

create function onceward.ledger_lock(p_accounts bigint[]) returns void
    language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    perform 1 from onceward.ledger_bounds where account_id = any (p_accounts) order by account_id for no key update;
end
$$;
comment on function onceward.ledger_lock(bigint[]) is 'The one order in which accounts are locked: by id. Unbounded ones have no row.';

create function onceward.ledger_move(p_debits bigint[], p_credits bigint[], p_amounts bigint[], p_reserve int)
    returns void
    language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    change record;
begin
    perform onceward.ledger_lock(p_debits || p_credits);
    for change in
        select a.id, a.code, a.currency, b.balance, b.reserved, l.gain, l.loss
        from (
            select account, sum(amount) filter (where debit = a.debit_normal) as gain,
                   sum(amount) filter (where debit <> a.debit_normal) as loss
            from (
                select debit as account, amount, true as debit from unnest(p_debits, p_amounts) as x (debit, amount)
                union all
                select credit, amount, false from unnest(p_credits, p_amounts) as x (credit, amount)
            ) legs
            join onceward.ledger_accounts a on a.id = legs.account and a.bounded
            group by account
        ) l
        join onceward.ledger_bounds b on b.account_id = l.account
        join onceward.ledger_accounts a on a.id = l.account
        order by a.id
    loop
        change.gain := coalesce(change.gain, 0);
        change.loss := coalesce(change.loss, 0);
        if p_reserve >= 0 and change.balance - change.reserved
            + (case when p_reserve = 0 then change.gain else 0 end) - change.loss < 0 then
            raise exception 'account % has % %, % is needed', change.code, change.balance - change.reserved,
                change.currency, change.loss using errcode = 'OW105';
        end if;
        update onceward.ledger_bounds
        set balance = balance + case when p_reserve = 0 then change.gain - change.loss else 0 end,
            reserved = reserved + p_reserve * change.loss
        where account_id = change.id;
    end loop;
end
$$;
comment on function onceward.ledger_move(bigint[], bigint[], bigint[], int) is
    'Move bounded balances (0), reserve what pending entries would take from them (1), or give the reserve back (-1).';

create function onceward.ledger_found(p_organization uuid, p_key text, p_body bytea) returns bigint
    language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    found_id bigint;
    found_body bytea;
begin
    select id, body into found_id, found_body from onceward.ledger_journals
    where organization_id = p_organization and key = p_key;
    if found_id is not null and found_body <> p_body then
        raise exception 'key % was used for journal % with another body', p_key, found_id using errcode = 'OW104';
    end if;
    return found_id;
end
$$;
comment on function onceward.ledger_found(uuid, text, bytea) is 'The journal of this key if the body is the same, an error if it is not.';

create function onceward.ledger_post(
    p_key text, p_debits text[], p_credits text[], p_amounts bigint[], p_currencies text[],
    p_memo text default null, p_pending boolean default false,
    out journal_id bigint, out fresh boolean)
    language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    org uuid := onceward.required_organization();
    digest bytea := sha256(convert_to(jsonb_build_array(
        p_debits, p_credits, p_amounts, p_currencies, p_memo, p_pending)::text, 'UTF8'));
    debits bigint[];
    credits bigint[];
    bounded boolean;
    total numeric;
    unknown text;
begin
    select array_agg(d.id order by w.n), array_agg(c.id order by w.n), bool_or(d.bounded or c.bounded), sum(w.amount),
           string_agg(concat_ws(', ', case when d.id is null then w.debit || ' in ' || w.currency end,
                                      case when c.id is null then w.credit || ' in ' || w.currency end), ', ')
               filter (where d.id is null or c.id is null)
    into debits, credits, bounded, total, unknown
    from unnest(p_debits, p_credits, p_amounts, p_currencies) with ordinality as w (debit, credit, amount, currency, n)
    left join onceward.ledger_accounts d on d.organization_id = org and d.code = w.debit and d.currency = w.currency
    left join onceward.ledger_accounts c on c.organization_id = org and c.code = w.credit and c.currency = w.currency;
    if unknown is not null then
        raise exception 'no such account: %', unknown using errcode = 'OW103';
    end if;
    if bounded then
        -- Before the key is taken: accounts come before the rest in the order of locks.
        perform onceward.ledger_lock(debits || credits);
    end if;

    insert into onceward.ledger_journals (organization_id, key, kind, body, entries, total, memo, caused_by)
    values (org, p_key, case when p_pending then 'pending' else 'posted' end, digest, cardinality(p_amounts), total,
            p_memo, onceward.cause())
    on conflict (organization_id, key) do nothing
    returning id into journal_id;
    fresh := journal_id is not null;
    if not fresh then
        journal_id := onceward.ledger_found(org, p_key, digest);
        return;
    end if;
    -- After the journal: this transaction has its number before it draws ids for entries, as checkpoints need.
    insert into onceward.ledger_entries
        (journal_id, organization_id, debit_id, credit_id, amount, currency, pending)
    select ledger_post.journal_id, org, w.debit, w.credit, w.amount, w.currency, p_pending
    from unnest(debits, credits, p_amounts, p_currencies) as w (debit, credit, amount, currency);
    if p_pending then
        insert into onceward.ledger_pending (journal_id, organization_id) values (ledger_post.journal_id, org);
    end if;
    if bounded then
        perform onceward.ledger_move(debits, credits, p_amounts, case when p_pending then 1 else 0 end);
    end if;
end
$$;
comment on function onceward.ledger_post(text, text[], text[], bigint[], text[], text, boolean) is
    'Write one journal with its entries. The same key and body again gives the same journal; another body is an error.';

create function onceward.ledger_draw(
    p_kind text, p_key text, p_about bigint, p_entries bigint[] default null, p_amounts bigint[] default null,
    p_memo text default null, out journal_id bigint, out fresh boolean)
    language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    org uuid := onceward.required_organization();
    digest bytea := sha256(convert_to(jsonb_build_array(p_kind, p_about, p_entries, p_amounts, p_memo)::text, 'UTF8'));
    source onceward.ledger_journals;
    all_ids bigint[];
    all_debits bigint[];
    all_credits bigint[];
    all_amounts bigint[];
    origins bigint[];
    debits bigint[];
    credits bigint[];
    amounts bigint[];
    problem text;
begin
    select array_agg(id order by id), array_agg(debit_id order by id), array_agg(credit_id order by id),
           array_agg(amount order by id)
    into all_ids, all_debits, all_credits, all_amounts
    from onceward.ledger_entries e where e.journal_id = p_about and e.organization_id = org;
    perform onceward.ledger_lock(all_debits || all_credits);
    select * into source from onceward.ledger_journals
    where id = p_about and organization_id = org for no key update;
    fresh := false;
    journal_id := onceward.ledger_found(org, p_key, digest);
    if journal_id is not null then
        return;
    end if;
    if source.id is null then
        raise exception 'no such journal: %', p_about using errcode = 'OW106';
    end if;
    problem := onceward.ledger_cannot_draw(p_kind, source);
    if problem is not null then
        raise exception '%', problem using errcode = 'OW107';
    end if;

    -- Without parts: all that is left of each entry.
    select array_agg(p.id order by p.id), array_agg(p.debit order by p.id), array_agg(p.credit order by p.id),
           array_agg(p.amount order by p.id),
           min(case when p.whole is null then format('entry %s is not of journal %s', p.id, p_about)
                    else format('entry %s has %s left of %s, %s was asked', p.id, p.remains, p.whole, p.amount) end)
               filter (where p.amount > p.remains or p.whole is null)
    into origins, debits, credits, amounts, problem
    from (
        select coalesce(w.id, e.id) as id, e.debit, e.credit, e.whole, e.whole - coalesce(d.drawn, 0) as remains,
               coalesce(w.amount, e.whole - coalesce(d.drawn, 0)) as amount
        from unnest(all_ids, all_debits, all_credits, all_amounts) as e (id, debit, credit, whole)
        left join onceward.ledger_drawn d on d.entry_id = e.id
        full join unnest(p_entries, p_amounts) as w (id, amount) on w.id = e.id
        where case when p_entries is null then e.whole > coalesce(d.drawn, 0) else w.id is not null end
    ) p
    where p_kind <> 'void';
    if problem is not null or (origins is null and p_kind <> 'void') then
        raise exception '%', coalesce(problem, format('nothing is left of journal %s', p_about)) using errcode = 'OW108';
    end if;

    insert into onceward.ledger_journals (organization_id, key, kind, about, body, entries, total, memo, caused_by)
    values (org, p_key, p_kind, p_about, digest, coalesce(cardinality(origins), 0),
            coalesce((select sum(a) from unnest(amounts) a), 0), p_memo, onceward.cause())
    on conflict (organization_id, key) do nothing
    returning id into journal_id;
    if journal_id is null then
        journal_id := onceward.ledger_found(org, p_key, digest);
        return;
    end if;
    fresh := true;
    if p_kind = 'reversal' then
        select c, d into debits, credits from (select debits as d, credits as c) swapped;
    else
        delete from onceward.ledger_pending p where p.journal_id = p_about;
        perform onceward.ledger_move(all_debits, all_credits, all_amounts, -1);
    end if;
    insert into onceward.ledger_entries
        (journal_id, organization_id, debit_id, credit_id, amount, currency, pending, origin)
    select ledger_draw.journal_id, org, w.debit, w.credit, w.amount, e.currency, false, w.origin
    from unnest(debits, credits, amounts, origins) as w (debit, credit, amount, origin)
    join onceward.ledger_entries e on e.journal_id = p_about and e.id = w.origin;
    perform onceward.ledger_move(debits, credits, amounts, 0);
end
$$;
comment on function onceward.ledger_draw(text, text, bigint, bigint[], bigint[], text) is
    'Settle or void a pending journal, or reverse a posted one: all that is left of it, or the parts that are named.';

create function onceward.ledger_cannot_draw(p_kind text, p_source onceward.ledger_journals) returns text
    language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    ended text;
begin
    if p_kind = 'reversal' then
        return case p_source.kind
            when 'posted' then null
            when 'settlement' then null
            when 'pending' then format('journal %s is pending: void it, or reverse its settlement', p_source.id)
            else format('journal %s is a %s and cannot be reversed: post what is meant', p_source.id, p_source.kind) end;
    end if;
    if p_source.kind <> 'pending' then
        return format('journal %s is %s, not pending', p_source.id, p_source.kind);
    end if;
    select format('journal %s has ended already, by %s %s', p_source.id, kind, id) into ended
    from onceward.ledger_journals where about = p_source.id and kind in ('settlement', 'void');
    return ended;
end
$$;

create function onceward.ledger_checkpoint() returns bigint
    language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    newest bigint;
    own_number xid8;
    horizon onceward.ledger_horizon;
    folded bigint := 0;
begin
    if pg_current_xact_id_if_assigned() is not null then
        raise exception 'ledger_checkpoint needs a transaction of its own' using errcode = 'OW109';
    end if;
    -- Ids are not drawn in the order of commits. Whoever drew an id up to `newest` had its transaction number before,
    -- so that number is smaller than the one taken next; when all smaller ones are over, no such entry can still appear.
    select case when is_called then last_value else last_value - 1 end into newest from onceward.ledger_entry_ids;
    own_number := pg_current_xact_id();
    select * into horizon from onceward.ledger_horizon for update;
    if horizon.barrier > own_number then
        horizon.barrier := null;  -- from the server this database was restored from; propose anew
    end if;
    if horizon.barrier is not null and horizon.barrier > pg_snapshot_xmin(pg_current_snapshot()) then
        return 0;
    end if;
    if horizon.barrier is not null and horizon.proposed > horizon.through then
        folded := onceward.ledger_fold(horizon.through, horizon.proposed);
    else
        horizon.proposed := horizon.through;
    end if;
    update onceward.ledger_horizon
    set through = horizon.proposed, proposed = newest, barrier = own_number;
    return folded;
end
$$;
comment on function onceward.ledger_checkpoint() is
    'Fold entries into the checkpoints, as far as is safe; returns how many. The first call only proposes how far to go.';

create function onceward.ledger_fold(p_after bigint, p_through bigint) returns bigint
    language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    folded bigint;
begin
    with fresh as (
        select organization_id, debit_id, credit_id, amount from onceward.ledger_entries
        where id > p_after and id <= p_through and not pending
    ), sums as (
        select organization_id, account_id, sum(debit) as debits, sum(credit) as credits
        from (
            select organization_id, debit_id as account_id, amount as debit, 0 as credit from fresh
            union all
            select organization_id, credit_id, 0, amount from fresh
        ) legs
        group by organization_id, account_id
    ), written as (
        insert into onceward.ledger_checkpoints as c (account_id, organization_id, debits, credits)
        select account_id, organization_id, debits, credits from sums
        on conflict (account_id) do update
            set debits = c.debits + excluded.debits, credits = c.credits + excluded.credits
    )
    select count(*) into folded from fresh;
    return folded;
end
$$;

revoke all on function onceward.ledger_open(text, text, text, boolean, text), onceward.ledger_lock(bigint[]),
    onceward.ledger_move(bigint[], bigint[], bigint[], int), onceward.ledger_found(uuid, text, bytea),
    onceward.ledger_post(text, text[], text[], bigint[], text[], text, boolean),
    onceward.ledger_draw(text, text, bigint, bigint[], bigint[], text),
    onceward.ledger_cannot_draw(text, onceward.ledger_journals),
    onceward.ledger_checkpoint(), onceward.ledger_fold(bigint, bigint) from public;
grant execute on function onceward.ledger_open(text, text, text, boolean, text),
    onceward.ledger_post(text, text[], text[], bigint[], text[], text, boolean),
    onceward.ledger_draw(text, text, bigint, bigint[], bigint[], text) to onceward_app, onceward_engine;
grant execute on function onceward.ledger_checkpoint() to onceward_engine;

-- What an event caused is found by its cause: `onceward trace` must not read a whole table for it.

create index ledger_accounts_caused_by on onceward.ledger_accounts (caused_by) where caused_by is not null;
