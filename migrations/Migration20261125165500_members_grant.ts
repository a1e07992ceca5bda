import { Migration } from '@mikro-orm/migrations';

export class Migration20261125165500_members_grant extends Migration {
  override up(): void {
    this.addSql(`insert into "crm_grants" ("organization_id", "profile_id", "object", "action") select "organization_id", "id", 'members', '*' from "crm_profiles" where "name" = 'administrator' on conflict do nothing`);
  }
}
