-- Record one effect of a webhook, with its time.
create or replace function shop.note_effect(kind text, n int, release int) returns void language sql as
$$ insert into shop.effects (kind, n, release, noted_at) values (kind, n, release, clock_timestamp()) $$;
