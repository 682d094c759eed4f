-- Store what is known about a recipient. A null value keeps the stored one.
insert into onceward.recipients as r
    (organization_id, ref, email, phone, whatsapp, slack, push, locale, timezone, preferred_channel, destination,
     quiet_from, quiet_to)
values ($organization, $ref, lower($email), $phone, $whatsapp, $slack, $push, $locale, $timezone, $preferred_channel,
        coalesce($destination, 'individual'), $quiet_from, $quiet_to)
on conflict (coalesce(organization_id, '00000000-0000-0000-0000-000000000000'), ref) do update
    set email = coalesce(excluded.email, r.email), phone = coalesce(excluded.phone, r.phone),
        whatsapp = coalesce(excluded.whatsapp, r.whatsapp), slack = coalesce(excluded.slack, r.slack),
        push = coalesce(excluded.push, r.push), locale = coalesce(excluded.locale, r.locale),
        timezone = coalesce(excluded.timezone, r.timezone),
        preferred_channel = coalesce(excluded.preferred_channel, r.preferred_channel),
        destination = coalesce($destination, r.destination), quiet_from = coalesce(excluded.quiet_from, r.quiet_from),
        quiet_to = coalesce(excluded.quiet_to, r.quiet_to), updated_at = onceward.now()
