import { Migration } from '@mikro-orm/migrations';

export class Migration20261122000634_inbox_turns extends Migration {

  override name = 'Migration20261122000634_inbox_turns';

  override up(): void | Promise<void> {
    this.addSql(`drop index "crm_inbox_waiting";`);
    this.addSql(`create index "crm_inbox_due" on "crm_inbox" ("organization_id", "integration_id", "next_at") where "status" = 'waiting';`);
    this.addSql(`create index "crm_inbox_dead" on "crm_inbox" ("organization_id", "id") where "status" = 'dead';`);
    this.addSql(`create index "crm_inbox_ended" on "crm_inbox" ("status", "done_at") where "status" <> 'waiting';`);
  }

}
