-- Record one effect of a webhook.
create or replace function shop.note_effect(kind text, n int, release int) returns void language sql as
$$ insert into shop.effects (kind, n, release) values (kind, n, release) $$;
