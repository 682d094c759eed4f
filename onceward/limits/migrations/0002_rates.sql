-- How often somebody may do something. One row for each who did it lately, in one statement, over all nodes.

-- Unlogged: what a crash forgets costs a minute of patience, not data.
create unlogged table onceward.rates (
    key bytea primary key,                 -- sha256 of what is limited and for whom
    full_at timestamptz not null           -- when all of the allowance will be there again; past: nothing is used up
) with (fillfactor = 70);
grant select, insert, update, delete on onceward.rates to onceward_engine;
