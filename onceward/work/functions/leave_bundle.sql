-- Count one finished member of a bundle. The last member releases the work that waits for the bundle.
create or replace function onceward.leave_bundle(p_bundle bigint) returns void language plpgsql as $$
declare
    v_then bigint;
begin
    update onceward.bundles set remaining = remaining - 1
     where id = p_bundle
    returning case when remaining = 0 then then_id end into v_then;
    if v_then is not null then
        update onceward.work set sort_at = onceward.now() where id = v_then and lease is null;
        delete from onceward.bundles where id = p_bundle;
    end if;
end
$$;
