import type { Database } from '../database/index.ts';
import { column, prepare, record } from '../sql/index.ts';
import type { Caller, OperationContext, OperationPlan } from './operation.ts';
import { scopesSql } from './rows.ts';
import { type ById, byIdSql, statementName, tableOf } from './statements.ts';

/** Returns the names of the scopes to which transitions are limited and in which the caller finds a record. */
export type TransitionScopes = (
  database: Database,
  input: { readonly caller: Caller; readonly id: string },
) => Promise<ReadonlySet<string>>;

/** Compiles the search for the scopes of a record, for forms that offer only the values to which the caller can change it. */
export function compileTransitionScopes(context: OperationContext): TransitionScopes {
  const { fields, scopes } = context.definition;
  const limits = fields.flatMap(({ transitions }) => [...(transitions?.scopes?.values() ?? [])]);
  const names = new Set(limits.flatMap((next) => [...next.values()]));
  const limiting = scopes.filter(({ name }) => names.has(name));
  if (limiting.length === 0) return async () => new Set();
  const { bind } = prepare<OperationPlan & ById>(statementName(context, 'transition_scopes'), 'read', ($) => {
    const where = byIdSql(context, 'update', $);
    const isInside = limiting.map(
      (scope) => `coalesce(${scopesSql([scope], $, (name) => column({ name }))}, false)::text`,
    );
    return `select ${isInside.join(', ')} from ${tableOf(context)} ${record} where ${where}`;
  });
  return async (database, { caller, id }) => {
    const { organization } = caller.principal;
    const [row = []] = await database.run(bind({ organization, caller, id }));
    return new Set(limiting.flatMap(({ name }, index) => (String(row[index]) === 'true' ? [name] : [])));
  };
}
