-- Create a user, or return the one with this address. A disabled user stays unchanged, and no row is returned.
insert into onceward.users (email, name, admin) values ($1, $2, coalesce($3, false))
  on conflict (lower(email)) do update set admin = coalesce($3, users.admin) where users.disabled_at is null
  returning user_id, admin, xmax = 0 as created
