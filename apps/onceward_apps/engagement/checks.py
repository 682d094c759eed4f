"""Invariants of engagement. `onceward verify` checks them on a live database."""

from __future__ import annotations

from onceward.trust import Check, finds_nothing

ONE_STATE = """
select format('user %s of organization %s has no state', p.user_id, p.organization_id)
  from engagement.user_profiles p
 where not exists (select from engagement.user_engagement_states s
                    where s.organization_id = p.organization_id and s.user_id = p.user_id)
limit $1
"""

GOODBYES = """
select format('user %s of organization %s waits for an answer to the goodbye %s, which does not exist', s.user_id,
       s.organization_id, s.goodbye_key)
  from engagement.user_engagement_states s
 where s.state = 'goodbye_sent' and s.goodbye_key is not null
   and not exists (select from onceward.messages m
                    where coalesce(m.organization_id, '00000000-0000-0000-0000-000000000000') = s.organization_id
                      and m.key = s.goodbye_key)
limit $1
"""

OPT_OUTS = """
select format('user %s of organization %s has opted out, but messages do not know it', p.user_id, p.organization_id)
  from engagement.user_profiles p
 where p.reengagement_opt_out
   and not exists (select from onceward.opt_outs o
                    where o.organization_id = p.organization_id
                      and o.recipient in (p.user_id::text, 'erased:' || onceward.person_hash(p.user_id::text))
                      and o.channel in ('*', 'whatsapp') and o.category in ('*', 'engagement'))
limit $1
"""

HISTORY = """
-- The last transition of a user led to the state of the user.
select format('user %s of organization %s is %s, but the last transition led to %s', s.user_id, s.organization_id,
       s.state, t.to_state)
  from engagement.user_engagement_states s
 cross join lateral (select t.to_state from engagement.transitions t
                      where t.organization_id = s.organization_id and t.user_id = s.user_id order by t.id desc limit 1)
                          t
 where t.to_state <> s.state
limit $1
"""

OVERDUE = """
-- The daily run makes users dormant; three days later something is wrong with it.
select format('user %s of organization %s should be dormant since %s', s.user_id, s.organization_id,
       coalesce(s.goodbye_expires_at, s.remind_at))
  from engagement.user_engagement_states s join engagement.user_profiles p using (organization_id, user_id)
 where coalesce(s.goodbye_expires_at, s.remind_at) < onceward.now() - interval '3 days' and not p.reengagement_opt_out
limit $1
"""


CHECKS: tuple[Check, ...] = (
    finds_nothing("engagement.every_user_has_a_state", ONE_STATE),
    finds_nothing("engagement.a_goodbye_has_its_message", GOODBYES),
    finds_nothing("engagement.opted_out_users_get_no_messages", OPT_OUTS),
    finds_nothing("engagement.the_history_leads_to_the_state", HISTORY),
    finds_nothing("engagement.waiting_ends", OVERDUE),
)
