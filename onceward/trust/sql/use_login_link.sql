-- Use a login link once, and return its user. Return no row if the link is unknown, used or expired.
update onceward.login_links l set used_at = onceward.now() from onceward.users u
  where l.hash = $1 and l.used_at is null and l.expires_at > onceward.now()
  and u.user_id = l.user_id and u.disabled_at is null returning l.user_id
