import { quote } from './names.ts';

/** A trigger whose function has the given body, as data. */
export interface TriggerShape {
  readonly timing: string;
  readonly events: readonly string[];
  readonly body: string;
  /**
   * Set if the trigger runs once per statement, whose rows are in the tables `_old` and `_new`. If absent, it runs for each
   * row.
   */
  readonly forEach?: 'statement';
}

/** Returns the quoted name of a trigger's function. */
export const triggerFunction = (table: string, trigger: string): string => quote(`${table}_${trigger}_fn`);

/** Returns the statements that create a trigger and its function. */
export function createTriggerSql(
  table: string,
  name: string,
  { timing, events, body, forEach }: TriggerShape,
): readonly string[] {
  const routine = triggerFunction(table, name);
  const rows = [
    ...(events.includes('insert') ? [] : ['old table as _old']),
    ...(events.includes('delete') ? [] : ['new table as _new']),
  ];
  const referencing = forEach === 'statement' ? `referencing ${rows.join(' ')} ` : '';
  // Text in a condition can contain dollar signs.
  const tag = body.includes('$$') ? '$_body$' : '$$';
  return [
    `create or replace function ${routine}() returns trigger as ${tag} begin ${body} end; ${tag} language plpgsql;`,
    `create trigger ${quote(name)} ${timing} ${events.join(' or ')} on ${quote(table)} ${referencing}for each ${forEach ?? 'row'} execute function ${routine}();`,
  ];
}
