import { Migration } from '@mikro-orm/migrations';

export class Migration20261122001127_people extends Migration {

  override name = 'Migration20261122001127_people';

  override up(): void | Promise<void> {
    this.addSql(`alter table "crm_users" drop constraint "crm_users_email";`);
    this.addSql(`alter table "crm_users" add "verified_at" timestamptz null, add "organization_id" bigint null, add "disabled_at" timestamptz null;`);
    // Who is in several organizations works on in all of them; any other account belongs to where it is.
    this.addSql(`update "crm_users" u set "verified_at" = now() where (select count(*) from "crm_memberships" m where m."user_id" = u."id") > 1;`);
    this.addSql(`update "crm_users" u set "organization_id" = (select min(m."organization_id") from "crm_memberships" m where m."user_id" = u."id") where "verified_at" is null;`);
    this.addSql(`alter table "crm_users" add constraint "crm_users_organization_id_foreign" foreign key ("organization_id") references "crm_organizations" ("id") on update no action on delete no action;`);
    this.addSql(`create unique index "crm_users_verified_email" on "crm_users" ("email") where "verified_at" is not null;`);
    this.addSql(`create unique index "crm_users_unverified_email" on "crm_users" ("email", "organization_id") where "verified_at" is null;`);
  }

}
