import { Migration } from '@mikro-orm/migrations';

export class Migration20261124172901_former_slugs extends Migration {
  override name = 'Migration20261124172901_former_slugs';

  override up(): void {
    this.addSql(`create table "crm_former_slugs" ("slug" text collate "C" not null, "holder_id" bigint not null, "freed_at" timestamptz not null default now(), primary key ("slug"));`);
    this.addSql(`create index "crm_former_slugs_holder" on "crm_former_slugs" ("holder_id");`);
  }
}
