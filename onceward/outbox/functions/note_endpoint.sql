-- Notify the owner of an endpoint, and also the administrators where notices are set up.
create or replace function onceward.note_endpoint(p_endpoint onceward.endpoints, p_kind text, p_details jsonb) returns void
    language plpgsql as $$
begin
    insert into onceward.endpoint_notices (organization_id, endpoint_id, kind, owner, details)
    values (p_endpoint.organization_id, p_endpoint.endpoint_id, p_kind, p_endpoint.owner, p_details);
    if to_regclass('onceward.notices') is not null then
        execute 'insert into onceward.notices (organization_id, type, severity, title, details, group_key)
                 values ($1, $2, $3, $4, $5, $6)'
          using p_endpoint.organization_id,
                case p_kind when 'disabled' then 'ENDPOINT_DISABLED' else 'ENDPOINT_FAILING' end, 'warn',
                case p_kind when 'disabled' then 'An endpoint for webhooks was disabled'
                            else 'An endpoint for webhooks is failing' end,
                p_details || jsonb_build_object('endpoint_id', p_endpoint.endpoint_id), 'endpoints';
    end if;
end
$$;
