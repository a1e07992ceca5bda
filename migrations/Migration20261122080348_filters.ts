import { Migration } from '@mikro-orm/migrations';

export class Migration20261122080348_filters extends Migration {

  override name = 'Migration20261122080348_filters';

  override up(): void | Promise<void> {
    this.addSql(`create index "accounts_website_index" on "accounts" ("organization_id", left("website", 100), left("name", 100), "id");`);
    this.addSql(`create index "accounts_created_at_index" on "accounts" ("organization_id", "created_at", "id");`);
    this.addSql(`create index "accounts_updated_at_index" on "accounts" ("organization_id", "updated_at", "id");`);

    this.addSql(`drop index "contacts_account_id_index";`);
    this.addSql(`create index "contacts_email_index" on "contacts" ("organization_id", left("email", 100), left("last_name", 100), "id");`);
    this.addSql(`create index "contacts_created_at_index" on "contacts" ("organization_id", "created_at", "id");`);
    this.addSql(`create index "contacts_updated_at_index" on "contacts" ("organization_id", "updated_at", "id");`);
    this.addSql(`create index "contacts_account_id_index" on "contacts" ("organization_id", "account_id", left("last_name", 100), "id");`);

    this.addSql(`drop index "leads_email_lookup";`);
    this.addSql(`drop index "leads_phone_lookup";`);
    this.addSql(`create index "leads_source_index" on "leads" ("organization_id", left("source", 100), "created_at", "id");`);
    this.addSql(`create index "leads_owner_id_index" on "leads" ("organization_id", "owner_id", "created_at", "id");`);
    this.addSql(`create index "leads_updated_at_index" on "leads" ("organization_id", "updated_at", "id");`);
    this.addSql(`create index "leads_email_lookup" on "leads" ("organization_id", left(lower("email"), 100), "created_at", "id");`);
    this.addSql(`create index "leads_phone_lookup" on "leads" ("organization_id", left(regexp_replace(regexp_replace("phone", '\\D', '', 'g'), '^00', ''), 100), "created_at", "id");`);

    this.addSql(`drop index "opportunities_account_id_index";`);
    this.addSql(`create index "opportunities_amount_index" on "opportunities" ("organization_id", "amount", "id");`);
    this.addSql(`create index "opportunities_close_date_index" on "opportunities" ("organization_id", "close_date", "id");`);
    this.addSql(`create index "opportunities_updated_at_index" on "opportunities" ("organization_id", "updated_at", "id");`);
    this.addSql(`create index "opportunities_account_id_index" on "opportunities" ("organization_id", "account_id", "created_at", "id");`);
  }

}
