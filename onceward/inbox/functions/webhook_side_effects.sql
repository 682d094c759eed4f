-- The side effects under the name that workers in other languages use. Its provider is the key with the source in it, so that
-- `on conflict (provider, event_id)` holds for one source only.
create or replace view public.webhook_side_effects with (security_invoker = true) as
    select id, effect_key as provider, event_id, external_id, payload, created_at, webhook_id from onceward.webhook_side_effects;
comment on view public.webhook_side_effects is 'onceward.webhook_side_effects under the name that workers in other languages use.';
grant select, insert on public.webhook_side_effects to onceward_sql_worker, onceward_organization_worker;
grant update (external_id, payload) on public.webhook_side_effects to onceward_sql_worker, onceward_organization_worker;
grant select on public.webhook_side_effects to onceward_app, onceward_engine;
