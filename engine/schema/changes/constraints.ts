import type { CheckShape } from '../../database/index.ts';
import { quote } from '../../sql/index.ts';
import type { AddConstraint, DropConstraint } from './change.ts';
import { alterTable } from './columns-sql.ts';
import { catalogOnly, changeEffects } from './effects.ts';
import { type Kind, validateNote, without, withTable } from './kind.ts';
import { checkRule, text } from './rules.ts';

/** Returns the ALTER TABLE clause that adds a check constraint. */
export const constraintClause = (name: string, { condition }: CheckShape): string =>
  `add constraint ${quote(name)} check (${condition})`;

export const addConstraint: Kind<AddConstraint> = {
  rules: { table: text, name: text, check: checkRule },
  apply: (tables, { table, name, check }) =>
    withTable(tables, table, ({ checks }) => ({ checks: { ...checks, [name]: check } })),
  sql: ({ table, name, check }) => [alterTable(table, constraintClause(name, check))],
  risk: () => changeEffects('ACCESS EXCLUSIVE', 'reads', 'blocking', 'data-dependent'),
  describe: () => 'checks every row and blocks all reads and writes on the table',
  online: ({ table, name, check }) => ({
    now: [alterTable(table, `${constraintClause(name, check)} not valid`)],
    later: [{ table, sql: alterTable(table, `validate constraint ${quote(name)}`) }],
    says: validateNote,
  }),
};

export const dropConstraint: Kind<DropConstraint> = {
  rules: { table: text, name: text },
  apply: (tables, { table, name }) =>
    withTable(tables, table, ({ checks }) => ({ checks: without(checks, name) })),
  sql: ({ table, name }) => [alterTable(table, `drop constraint ${quote(name)}`)],
  risk: () => catalogOnly,
  describe: () => 'drops a constraint',
};
