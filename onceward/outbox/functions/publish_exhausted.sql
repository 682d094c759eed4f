-- Tell the endpoints that name the type `message.attempt.exhausted` that a delivery has failed for good. A delivery of such an event
-- tells nobody, so that two broken endpoints do not report each other for ever.
create or replace function onceward.publish_exhausted(p_delivery bigint, p_number int, p_error jsonb) returns void language plpgsql as $$
declare
    v record;
    v_data json;
begin
    select d.organization_id, d.endpoint_id, d.type, d.attempts, d.response_status, p.message_id into v
      from onceward.deliveries d join onceward.published p on p.id = d.caused_by
     where d.id = p_delivery;
    if not found or v.type = 'message.attempt.exhausted' or not exists (
        select from onceward.endpoints e
         where e.active and e.organization_id is not distinct from v.organization_id and e.source_id is null
           and e.events @> array['message.attempt.exhausted']
    ) then
        return;
    end if;
    v_data := json_build_object(
        'endpointId', v.endpoint_id, 'deliveryId', p_delivery, 'messageId', v.message_id, 'type', v.type, 'attempts', p_number,
        'status', p_error -> 'status', 'error', left(p_error ->> 'message', 500));
    perform onceward.write_published(
        v.organization_id, 'message.attempt.exhausted', v_data, format('exhausted:%s:%s', p_delivery, v.attempts), null, null, null);
    perform onceward.wake_idle_workers('deliveries');
end
$$;
