-- The seal of a rehearsal: a row whose transaction cannot commit.

create table onceward.rehearsal_seals (
    work_id bigint not null                -- the work that is rehearsed
);
comment on table onceward.rehearsal_seals is
    'Always empty. A rehearsal begins with a row here, and a deferred trigger refuses to commit it.';
grant select, insert on onceward.rehearsal_seals to onceward_engine;

create constraint trigger refuse_commit after insert on onceward.rehearsal_seals
    deferrable initially deferred for each row execute function onceward.refuse_commit();
