-- Close user accounts and remove their names. An erasure for one organization leaves administrators and members of
-- other organizations as they are.
update onceward.users u set email = 'erased-' || user_id || '@invalid', name = '', admin = false,
       disabled_at = onceward.now()
 where user_id = any($1)
   and ($2::uuid is null or not u.admin and not exists (select from onceward.memberships m where m.user_id = u.user_id))
returning user_id
