import { quote } from '../sql/index.ts';
import { type LiveNode, viewsPrefix } from './nodes.ts';
import type { Execute } from './session.ts';

/** Keeps which tables have views for older models, under which name they are known now. */
export class OlderModels {
  readonly #shown = new Map<string, Set<string>>();

  /** The statements that show a table to older models as it is now, unless they see it so already. */
  show(table: string, nodes: readonly LiveNode[]): string[] {
    return [...new Set(nodes.map(({ views }) => views))].flatMap((schema) => {
      const shown = this.#shown.get(schema) ?? new Set();
      this.#shown.set(schema, shown);
      if (shown.has(table)) return [];
      shown.add(table);
      return [
        `create schema if not exists ${quote(schema)}`,
        `grant usage on schema ${quote(schema)} to public`,
        viewOf(schema, table),
      ];
    });
  }

  get isUsed(): boolean {
    return this.#shown.size > 0;
  }

  /** Renames a table; its views follow. */
  rename(from: string, to: string): void {
    for (const shown of this.#shown.values()) if (shown.delete(from)) shown.add(to);
  }
}

/** Drops views that no running node uses. */
export async function dropViews(execute: Execute, nodes: readonly LiveNode[]): Promise<void> {
  const schemas = await execute(
    `select nspname::text as name from pg_namespace where starts_with(nspname, '${viewsPrefix}')`,
  );
  for (const { name } of schemas) {
    if (!nodes.some(({ views }) => views === name))
      await execute(`drop schema ${quote(String(name))} cascade`);
  }
}

/** Returns a writable view of a table, with the permissions of the table. */
const viewOf = (schema: string, table: string): string => `do $view$ begin
  if to_regclass('${quote(schema)}.${quote(table)}') is null then
    execute (select 'create view ${quote(schema)}.${quote(table)} with (security_invoker = true) as select ' || string_agg(quote_ident(attname), ', ' order by attnum) || ' from ${quote(table)}'
      from pg_attribute where attrelid = '${quote(table)}'::regclass and attnum > 0 and not attisdropped and (attname not like '\\_%' or attname = '_version'));
    grant select, insert, update, delete on ${quote(schema)}.${quote(table)} to public;
  end if;
end $view$`;
