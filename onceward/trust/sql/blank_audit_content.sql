-- Remove the content of audit entries. The salt goes too, so that the hash in the chain cannot be guessed.
update onceward.audit_log set reason = null, changes = null, metadata = null, content_salt = null,
    erased_at = coalesce(erased_at, onceward.now())
where id = any($1)
