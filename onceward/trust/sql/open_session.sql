-- Open a session of a user who has just signed in. $4 is null if the session does not end when it is idle.
insert into onceward.sessions (hash, user_id, expires_at, idle, second_factor_required, second_factor_at, method, browser, address)
select $1, u.user_id, onceward.now() + make_interval(secs => $3), make_interval(secs => $4),
       $5 = 'required' or $5 = 'admins' and u.admin, case when $6 then onceward.now() end, $7, $8, $9
  from onceward.users u where u.user_id = $2
returning expires_at
