import { Migration } from '@mikro-orm/migrations';

export class Migration20261123165427_identities extends Migration {
  override name = 'Migration20261123165427_identities';

  override up(): void {
    this.addSql(`create table "crm_identities" ("issuer" text collate "C" not null, "subject" text collate "C" not null, "user_id" bigint not null, "created_at" timestamptz not null default now(), primary key ("issuer", "subject"));`);
    this.addSql(`alter table "crm_identities" add constraint "crm_identities_user" unique ("user_id", "issuer");`);
    this.addSql(`alter table "crm_identities" add constraint "crm_identities_user_id_foreign" foreign key ("user_id") references "crm_users" ("id") on update no action on delete cascade;`);
  }
}
