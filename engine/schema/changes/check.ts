import { literal, quote } from '../../sql/index.ts';
import type { Check } from './change.ts';
import { changeEffects } from './effects.ts';
import type { Kind } from './kind.ts';
import { text } from './rules.ts';

/** SQLSTATE raised if a migration fails because of stored values. */
export const checkSqlState = 'CRM01';

export const check: Kind<Check> = {
  rules: { table: text, name: text, says: text, where: text },
  apply: (tables) => tables,
  sql: ({ table, name, says, where }) => {
    const body = `declare lost bigint; ids text; begin
  select count(*) into lost from ${quote(table)} where ${where};
  if lost > 0 then
    select string_agg(shown, ', ') into ids from (select "id" || ' of organization ' || "organization_id" as shown from ${quote(table)} where ${where} order by "organization_id", "id" limit 10) s;
    raise exception using errcode = '${checkSqlState}', message = ${literal(`${name} ${says} in `)} || lost || case lost when 1 then ' record' else ' records' end || ', for example ' || ids;
  end if;
end`;
    return [`do $check$ ${body} $check$;`];
  },
  risk: () => changeEffects('ACCESS SHARE', 'reads', 'data-dependent'),
  describe: () => 'fails the migration if records contain incompatible values',
  // The name of a resource stands for all of its records.
  title: ({ name, says }) => `fail if ${name} ${says}${name.includes('.') ? ' in any record' : ''}`,
};
