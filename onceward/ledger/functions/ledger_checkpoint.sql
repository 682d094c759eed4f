-- Fold entries into the checkpoints as far as is safe, and return how many. The first call only proposes how far to go.
create or replace function onceward.ledger_checkpoint() returns bigint
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
    -- Ids are not assigned in the order of commits. A transaction that drew an id up to `newest` already had its transaction
    -- number, which is smaller than the next one. When all smaller numbers have ended, no such entry can appear any more.
    select case when is_called then last_value else last_value - 1 end into newest from onceward.ledger_entry_ids;
    own_number := pg_current_xact_id();
    select * into horizon from onceward.ledger_horizon for update;
    if horizon.barrier > own_number then
        horizon.barrier := null;  -- from the server of a restored dump; propose again
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
    'Fold entries into the checkpoints as far as is safe, and return how many. The first call only proposes how far to go.';

revoke all on function onceward.ledger_checkpoint() from public;
grant execute on function onceward.ledger_checkpoint() to onceward_engine;
