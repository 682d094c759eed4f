-- Start a new workflow with the recorded steps of another one before a position.
with source as (
    select * from onceward.workflows where id = $1
), created as (
    insert into onceward.workflows (id, organization_id, name, version, args, attributes, caused_by, forked_from)
    select nextval('onceward.ids'), organization_id, name, version, args, attributes, caused_by, id from source
    returning id, organization_id, name
), steps as (
    insert into onceward.workflow_steps
        (workflow_id, position, organization_id, kind, key, name, state, attempts, result, error, due_at, ref, started_at, finished_at)
    select m.id, s.position, s.organization_id, s.kind, s.key, s.name,
           case when s.kind = 'compensation' then 'registered' else s.state end,
           s.attempts, s.result, s.error, s.due_at, s.ref, s.started_at, s.finished_at
      from onceward.workflow_steps s, created m
     where s.workflow_id = $1 and s.position < $2 and not (s.kind = 'child' and s.state = 'waiting')
)
insert into onceward.work (id, organization_id, line, kind, task, queue, sort_at)
select id, organization_id, onceward.line_of(organization_id, null), 'workflow', 'workflow:' || name, 'workflows',
    onceward.now() from created
returning id
