-- Return the audit entries whose erasure the audit log itself records.
select distinct (jsonb_array_elements_text(metadata -> 'ids'))::bigint as id
from onceward.audit_log where action = 'audit.erased' and metadata is not null
