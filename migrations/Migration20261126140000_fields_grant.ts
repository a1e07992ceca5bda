import { Migration } from '@mikro-orm/migrations';

export class Migration20261126140000_fields_grant extends Migration {
  override up(): void {
    this.addSql(`insert into "crm_grants" ("organization_id", "profile_id", "object", "action") select "organization_id", "id", 'fields', '*' from "crm_profiles" where "name" = 'administrator' on conflict do nothing`);
  }
}
