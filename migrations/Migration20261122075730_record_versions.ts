import { Migration } from '@mikro-orm/migrations';

export class Migration20261122075730_record_versions extends Migration {

  override name = 'Migration20261122075730_record_versions';

  override up(): void | Promise<void> {
    this.addSql(`alter table "accounts" add "_version" bigint not null default 1;`);
    this.addSql(`create or replace function "accounts__version_fn"() returns trigger as \$\$ begin new."_version" = old."_version" + 1; return new; end; \$\$ language plpgsql;`);
    this.addSql(`create trigger "_version" BEFORE UPDATE on "accounts" for each ROW execute function "accounts__version_fn"();`);

    this.addSql(`alter table "contacts" add "_version" bigint not null default 1;`);
    this.addSql(`create or replace function "contacts__version_fn"() returns trigger as \$\$ begin new."_version" = old."_version" + 1; if old."account_id" is not null and new."account_id" is null then new."updated_at" = now(); end if; return new; end; \$\$ language plpgsql;`);
    this.addSql(`create trigger "_version" BEFORE UPDATE on "contacts" for each ROW execute function "contacts__version_fn"();`);

    this.addSql(`alter table "cases" add "_version" bigint not null default 1;`);
    this.addSql(`create or replace function "cases__version_fn"() returns trigger as \$\$ begin new."_version" = old."_version" + 1; if old."account_id" is not null and new."account_id" is null or old."contact_id" is not null and new."contact_id" is null then new."updated_at" = now(); end if; return new; end; \$\$ language plpgsql;`);
    this.addSql(`create trigger "_version" BEFORE UPDATE on "cases" for each ROW execute function "cases__version_fn"();`);

    this.addSql(`alter table "leads" add "_version" bigint not null default 1;`);
    this.addSql(`create or replace function "leads__version_fn"() returns trigger as \$\$ begin new."_version" = old."_version" + 1; return new; end; \$\$ language plpgsql;`);
    this.addSql(`create trigger "_version" BEFORE UPDATE on "leads" for each ROW execute function "leads__version_fn"();`);

    this.addSql(`alter table "opportunities" add "_version" bigint not null default 1;`);
    this.addSql(`create or replace function "opportunities__version_fn"() returns trigger as \$\$ begin new."_version" = old."_version" + 1; if old."account_id" is not null and new."account_id" is null then new."updated_at" = now(); end if; return new; end; \$\$ language plpgsql;`);
    this.addSql(`create trigger "_version" BEFORE UPDATE on "opportunities" for each ROW execute function "opportunities__version_fn"();`);
  }

}
