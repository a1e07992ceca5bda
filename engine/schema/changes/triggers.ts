import { createTriggerSql, quote, triggerFunction } from '../../sql/index.ts';
import type { CreateTrigger, DropTrigger } from './change.ts';
import { changeEffects } from './effects.ts';
import { type Kind, without, withTable } from './kind.ts';
import { text, triggerRule } from './rules.ts';

const triggerEffects = changeEffects('SHARE ROW EXCLUSIVE');
const description = 'changes the triggers that run with each write';

/** Returns the statements that drop a trigger and its function. */
export const dropTriggerSql = (table: string, name: string): readonly string[] => [
  `drop trigger if exists ${quote(name)} on ${quote(table)};`,
  `drop function if exists ${triggerFunction(table, name)}();`,
];

export const createTrigger: Kind<CreateTrigger> = {
  rules: { table: text, name: text, trigger: triggerRule },
  apply: (tables, { table, name, trigger }) =>
    withTable(tables, table, ({ triggers }) => ({ triggers: { ...triggers, [name]: trigger } })),
  sql: ({ table, name, trigger }) => createTriggerSql(table, name, trigger),
  risk: () => triggerEffects,
  describe: () => description,
};

export const dropTrigger: Kind<DropTrigger> = {
  rules: { table: text, name: text },
  apply: (tables, { table, name }) =>
    withTable(tables, table, ({ triggers }) => ({ triggers: without(triggers, name) })),
  sql: ({ table, name }) => dropTriggerSql(table, name),
  risk: () => triggerEffects,
  describe: () => description,
};
