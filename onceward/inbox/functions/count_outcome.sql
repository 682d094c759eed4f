-- Count the outcome of an event for the webhook metrics.
create or replace function onceward.count_outcome(p_webhook_id uuid, p_provider text, p_outcome text, p_reason text) returns void
    language sql set search_path = pg_catalog, pg_temp as $$
insert into onceward.webhook_counts
select 'processing', p_webhook_id, p_provider, case when p_outcome = 'success' then 'success' else 'error' end
union all
select 'dead_letter', p_webhook_id, p_provider, p_reason where p_outcome = 'dead_letter'
$$;

revoke all on function onceward.count_outcome(uuid, text, text, text) from public;
