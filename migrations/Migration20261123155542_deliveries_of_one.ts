import { Migration } from '@mikro-orm/migrations';

export class Migration20261123155542_deliveries_of_one extends Migration {
  override name = 'Migration20261123155542_deliveries_of_one';

  override up(): void {
    this.addSql(`create index "crm_inbox_owner" on "crm_inbox" ("organization_id", "integration_id", "id");`);
    this.addSql(`create index "crm_event_deliveries_owner" on "crm_event_deliveries" ("organization_id", "subscription_id", "id");`);
  }
}
