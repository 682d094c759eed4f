-- Create one delivery and one row of work for each matching active endpoint, in one statement. p_endpoint limits it to one
-- endpoint; p_source to those that get the events of an inbound source. Events about deliveries go to endpoints that name their type.
create or replace function onceward.fan_out(
    p_published bigint, p_type text, p_channels text[], p_organization uuid, p_endpoint uuid, p_source uuid default null
) returns int language sql as $$
with matched as materialized (
    select nextval('onceward.ids') as id, e.*
      from onceward.endpoints e
     where e.active
       and coalesce(e.organization_id, '00000000-0000-0000-0000-000000000000')
           = coalesce(p_organization, '00000000-0000-0000-0000-000000000000')
       and case when p_endpoint is not null then e.endpoint_id = p_endpoint
                else not e.direct and e.source_id is not distinct from p_source
                     and e.events && array(
                         select p_type
                         union all
                         select '*' where p_source is not null or p_type not like 'message.attempt.%'
                         union all
                         select array_to_string((string_to_array(p_type, '.'))[:n], '.') || '.*'
                           from generate_series(1, cardinality(string_to_array(p_type, '.')) - 1) n
                          where p_source is not null or p_type not like 'message.attempt.%')
                     and (e.channels is null or e.channels && p_channels) end
), bodies as (
    insert into onceward.deliveries (id, organization_id, endpoint_id, type, caused_by)
    select m.id, m.organization_id, m.endpoint_id, p_type, p_published from matched m
), work as (
    insert into onceward.work (id, organization_id, line, kind, task, queue, sort_at, lane, cap, ordered)
    select m.id, m.organization_id, onceward.line_of(m.organization_id, null), 'delivery', 'outbox.deliver',
        'deliveries', onceward.now(), m.endpoint_id::text,
           coalesce(m.max_in_flight, 10), nullif(m.ordered, false)
      from matched m
    returning 1
)
select count(*)::int from work
$$;
