import { Migration } from '@mikro-orm/migrations';

export class Migration20261122082140_search extends Migration {

  override name = 'Migration20261122082140_search';

  override up(): void | Promise<void> {
    this.addSql(`create extension if not exists "btree_gin";`);
    this.addSql(`create extension if not exists "pg_trgm";`);
    this.addSql(`create index "accounts_search_gin" on "accounts" using gin ("organization_id", (("name" || chr(10) || "website") collate "default") gin_trgm_ops);`);

    this.addSql(`create index "contacts_search_gin" on "contacts" using gin ("organization_id", (("first_name" || chr(10) || "last_name" || chr(10) || "email") collate "default") gin_trgm_ops);`);

    this.addSql(`create index "leads_search_gin" on "leads" using gin ("organization_id", (("first_name" || chr(10) || "last_name" || chr(10) || "company" || chr(10) || "email") collate "default") gin_trgm_ops);`);
  }

}
