-- How the public pages of an organization look: its colour and its logo. Its name is in onceward.organizations.

create table onceward.organization_looks (
    organization_id uuid primary key references onceward.organizations on delete cascade,
    accent text not null default '' check (accent ~ '^(#[0-9a-f]{6})?$'),
    logo bytea check (length(logo) <= 200000),
    logo_type text not null default '' check (logo_type in ('', 'image/png', 'image/jpeg', 'image/webp')),
    changed_at timestamptz not null default onceward.now(),
    check ((logo is null) = (logo_type = ''))
);
comment on table onceward.organization_looks is 'The colour and the logo that visitors see on the public pages of an organization.';
select onceward.protect('onceward.organization_looks');

-- Every organization has a row, so that a change of its look can lock it.
create function onceward.add_organization_look() returns trigger language plpgsql as $$
begin
    insert into onceward.organization_looks (organization_id) values (new.organization_id);
    return null;
end
$$;
create trigger add_look after insert on onceward.organizations for each row execute function onceward.add_organization_look();
insert into onceward.organization_looks (organization_id) select organization_id from onceward.organizations;
