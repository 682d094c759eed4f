-- Let this transaction act for an organization, and record it in the audit log. The default actor is the cause of the transaction.
-- False: there is no such organization, and nothing changes.
create or replace function onceward.act_for(p_organization uuid, p_actor text default null) returns boolean
    language plpgsql as $$
begin
    -- Set before the check: the app role sees an organization only while it acts for it.
    perform set_config('onceward.organization', p_organization::text, true);
    insert into onceward.audit_log (organization_id, action, entity_type, entity_id, actor)
    select p_organization, 'organization.acted_for', 'organization', p_organization::text,
           coalesce(p_actor, nullif(current_setting('onceward.cause', true), ''), 'system')
    where exists (select from onceward.organizations where organization_id = p_organization);
    if not found then
        perform set_config('onceward.organization', '', true);
        return false;
    end if;
    return true;
end
$$;

comment on function onceward.act_for(uuid, text) is
    'Let this transaction act for an organization, and record it in the audit log. False: there is no such organization.';

revoke all on function onceward.act_for(uuid, text) from public;
grant execute on function onceward.act_for(uuid, text) to onceward_app, onceward_engine;
