-- Move the mark $1 from $2 to $3, and note the rows $4 that are examined again at the times $5.
-- The mark moves only from where the window began: another node may have moved it, or a shorter retention may have moved it back.
with noted as (
    insert into onceward.prune_later (name, id, due_at)
    select $6, l.id, l.due_at from unnest($4::bigint[], $5::timestamptz[]) as l (id, due_at)
    on conflict (name, id) do update set due_at = least(prune_later.due_at, excluded.due_at)
)
insert into onceward.prune_marks as m (name, through) values ($1, $3)
on conflict (name) do update set through = excluded.through where m.through = $2
