-- Return what the on_end hook of a delivery needs to know about it as of now.
create or replace function onceward.ended_delivery(p_id bigint) returns jsonb language sql stable as $$
    select jsonb_build_object('endpoint', d.endpoint_id, 'type', d.type, 'event', d.caused_by,
                              'response_status', d.response_status)
      from onceward.deliveries d where d.id = p_id
$$;
