import { Migration } from '@mikro-orm/migrations';

export class Migration20261122201630_name_uses extends Migration {
  override name = 'Migration20261122201630_name_uses';

  override up(): void {
    this.addSql(`create table "crm_name_uses" ("organization_id" bigint not null, "key_id" bigint not null, "resource" text collate "C" not null, "name" text collate "C" not null, "last_used_at" timestamptz not null default now(), primary key ("organization_id", "key_id", "resource", "name"));`);
    this.addSql(`create index "crm_name_uses_last_used_at" on "crm_name_uses" ("last_used_at");`);
    this.addSql(`alter table "crm_name_uses" add constraint "crm_name_uses_organization_id_foreign" foreign key ("organization_id") references "crm_organizations" ("id") on update no action on delete no action;`);
    this.addSql(`alter table "crm_name_uses" add constraint "crm_name_uses_key_foreign" foreign key ("organization_id", "key_id") references "crm_api_keys" ("organization_id", "id") on update no action on delete cascade;`);
  }
}
