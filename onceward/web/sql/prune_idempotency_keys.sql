-- Delete the keys that are older than 24 hours. A request that finds such a key takes it again, so a late run does no harm.
delete from onceward.idempotency_keys where created_at < statement_timestamp() - interval '24 hours'
