-- Whether the instance is in use (somebody has logged in, or there is an account besides the first administrator $1), and
-- whether an administrator has an open session.
select exists (select from onceward.login_links where used_at is not null)
    or exists (select from onceward.users where email <> $1) as in_use,
    exists (
        select from onceward.sessions s join onceward.users u using (user_id)
        where u.admin and u.disabled_at is null and s.expires_at > onceward.now()
          and (s.idle is null or s.last_seen_at + s.idle > onceward.now())
    ) as logged_in
