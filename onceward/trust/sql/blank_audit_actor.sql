-- Remove from audit entries who acted. The salt goes too, so that the hash in the chain cannot be guessed.
update onceward.audit_log set actor = 'erased', user_id = null, entity_id = null, who_salt = null,
    erased_at = coalesce(erased_at, onceward.now())
where id = any($1)
