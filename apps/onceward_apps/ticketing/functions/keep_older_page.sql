-- Keep the payment page that a newer one replaces: the buyer may still pay on it.
create or replace function ticketing.keep_older_page() returns trigger
    language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    insert into ticketing.older_pages (organization_id, checkout_id, provider, provider_session)
    values (old.organization_id, old.id, old.provider, old.provider_session)
    on conflict (checkout_id, provider_session) do nothing;
    return null;
end
$$;

create or replace trigger keep_older_page after update of provider_session on ticketing.checkouts
    for each row when (old.provider_session is not null and old.provider_session is distinct from new.provider_session)
    execute function ticketing.keep_older_page();
