-- Store one version of a template. Versions are per organization, so that no organization can replace a text of another one.
insert into onceward.templates (organization_id, name, version, content) values ($1, $2, $3, $4) on conflict do nothing
