-- Post a journal that is a transaction of its own, for an organization: one statement without BEGIN and COMMIT. Only the
-- engine may choose the organization. Inside a transaction it would change the organization of the rest: it is refused there.
create or replace function onceward.ledger_post_alone(
    p_organization uuid, p_key text, p_debits text[], p_credits text[], p_amounts bigint[], p_currencies text[],
    p_memo text, p_pending boolean, out journal_id bigint, out fresh boolean)
    language plpgsql as $$
begin
    if onceward.organization() is not null then
        raise exception 'this transaction acts for an organization: use onceward.ledger_post' using errcode = 'OW109';
    end if;
    perform set_config('onceward.organization', p_organization::text, true);
    select p.journal_id, p.fresh into journal_id, fresh
    from onceward.ledger_post(p_key, p_debits, p_credits, p_amounts, p_currencies, p_memo, p_pending) p;
end
$$;

comment on function onceward.ledger_post_alone(uuid, text, text[], text[], bigint[], text[], text, boolean) is
    'Post a journal that is a transaction of its own, for an organization. Only for the engine.';

revoke all on function onceward.ledger_post_alone(uuid, text, text[], text[], bigint[], text[], text, boolean) from public;
grant execute on function onceward.ledger_post_alone(uuid, text, text[], text[], bigint[], text[], text, boolean) to onceward_engine;
