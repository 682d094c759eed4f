-- What an event caused is found by its cause: `onceward trace` must not read a whole table for it.

create index ledger_accounts_caused_by on onceward.ledger_accounts (caused_by) where caused_by is not null;
