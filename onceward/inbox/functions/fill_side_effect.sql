-- Give a side effect its source, its organization and the key that contains them.
create or replace function onceward.fill_side_effect() returns trigger
    language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_worker uuid := onceward.login_organization();    -- null: a worker of the whole installation
    v_found uuid[];
begin
    new.provider := coalesce(new.provider, new.effect_key);
    if new.webhook_id is null then
        -- One lookup in an index for each source: no event of the past is read.
        v_found := array(select s.webhook_id from onceward.sources s
                          where (v_worker is null or s.organization_id = v_worker)
                            and exists (select from onceward.webhook_events e
                                         where e.webhook_id = s.webhook_id and e.event_id = new.event_id)
                          limit 2);
        if cardinality(v_found) > 1 then
            raise exception 'event id % exists in several sources: a side effect must name its source', new.event_id
                using errcode = 'invalid_parameter_value', hint = 'insert the webhook_id of the claimed event too';
        end if;
        new.webhook_id := v_found[1];
    end if;
    select s.organization_id into new.organization_id from onceward.sources s where s.webhook_id = new.webhook_id;
    if v_worker is not null and new.webhook_id is not null and new.organization_id is distinct from v_worker then
        raise exception 'webhook_id % is not a source of the organization of this worker', new.webhook_id
            using errcode = 'invalid_parameter_value';
    end if;
    new.organization_id := coalesce(new.organization_id, v_worker);
    new.effect_key := concat_ws('@', new.provider, coalesce(new.webhook_id, new.organization_id));
    return new;
end
$$;
revoke all on function onceward.fill_side_effect() from public;
create or replace trigger fill_side_effect before insert on onceward.webhook_side_effects
    for each row execute function onceward.fill_side_effect();
