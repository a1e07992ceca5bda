import { Migration } from '@mikro-orm/migrations';

export class Migration20261122081415_idempotency extends Migration {

  override name = 'Migration20261122081415_idempotency';

  override up(): void | Promise<void> {
    this.addSql(`create table "crm_idempotency" ("organization_id" bigint not null, "caller" text collate "C" not null, "path" text collate "C" not null, "key" text collate "C" not null, "body_hash" text collate "C" not null, "record" text collate "C" not null, "record_id" bigint not null, "tag" text collate "C" not null, "created_at" timestamptz not null default now(), primary key ("organization_id", "caller", "path", "key"));`);
    this.addSql(`create index "crm_idempotency_created_at" on "crm_idempotency" ("created_at");`);
  }

}
