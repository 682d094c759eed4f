-- Return what finished work has really caused: one JSON document per effect, as a rehearsal describes it.
select 'jobs' as kind, j.caused_by as cause, j.id,
       jsonb_build_object('task', j.task, 'arguments', j.args) as effect
  from onceward.jobs j where j.caused_by = any($1::bigint[])
union all
select 'messages', m.caused_by, m.id,
       jsonb_build_object('template', m.template, 'channel', m.channel, 'recipient', m.recipient, 'key', m.key)
  from onceward.messages m where m.caused_by = any($1::bigint[])
union all
select 'published', p.caused_by, p.id,
       jsonb_build_object('type', p.type, 'key', p.key, 'body', convert_from(p.body, 'UTF8'))
  from onceward.published p where p.caused_by = any($1::bigint[])
union all
select 'journals', g.caused_by, g.id,
       jsonb_build_object('key', g.key, 'kind', g.kind, 'memo', g.memo, 'entries', (
           select jsonb_agg(jsonb_build_object('debit', d.code, 'credit', c.code, 'amount', e.amount, 'currency', e.currency) order by e.id)
             from onceward.ledger_entries e
             join onceward.ledger_accounts d on d.id = e.debit_id
             join onceward.ledger_accounts c on c.id = e.credit_id
            where e.journal_id = g.id))
  from onceward.ledger_journals g where g.caused_by = any($1::bigint[])
union all
select 'audit', l.caused_by, l.id,
       jsonb_build_object('action', l.action, 'entity_type', l.entity_type, 'entity_id', l.entity_id, 'changes', l.changes,
                          'reason', l.reason)
  from onceward.audit_log l where l.caused_by = any($1::bigint[])
 order by 1, 2, 3
