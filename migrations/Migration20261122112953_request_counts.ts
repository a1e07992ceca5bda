import { Migration } from '@mikro-orm/migrations';

export class Migration20261122112953_request_counts extends Migration {

  override name = 'Migration20261122112953_request_counts';

  override up(): void | Promise<void> {
    this.addSql(`create table "crm_request_counts" ("organization_id" bigint not null, "caller" text collate "C" not null, "window_start" timestamptz not null, "requests" bigint not null, primary key ("organization_id", "caller"));`);

    this.addSql(`alter table "crm_request_counts" add constraint "crm_request_counts_organization_id_foreign" foreign key ("organization_id") references "crm_organizations" ("id") on update no action on delete no action;`);
  }

}
