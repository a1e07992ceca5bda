import { literal, quote, trashedColumn, versionColumn } from '../sql/index.ts';
import { type LiveNode, viewsPrefix } from './nodes.ts';
import type { Execute } from './session.ts';

/** Tracks the tables that have views for older models. Uses the tables' current names. */
export class OlderModels {
  readonly #tablesBySchema = new Map<string, Set<string>>();

  /** Returns statements that create the missing views of a table, in its current form, for older nodes. */
  show(table: string, nodes: readonly LiveNode[]): string[] {
    return [...new Set(nodes.map(({ views }) => views))].flatMap((schema) => {
      const tables = this.#tablesBySchema.get(schema) ?? new Set();
      this.#tablesBySchema.set(schema, tables);
      if (tables.has(table)) return [];
      tables.add(table);
      return [
        `create schema if not exists ${quote(schema)}`,
        `grant usage on schema ${quote(schema)} to public`,
        limitedView(schema, table),
      ];
    });
  }

  get isUsed(): boolean {
    return this.#tablesBySchema.size > 0;
  }

  /** Records a table's new name. Its views remain valid, because they refer to the table by its ID. */
  rename(from: string, to: string): void {
    for (const tables of this.#tablesBySchema.values()) if (tables.delete(from)) tables.add(to);
  }
}

/** Drops views that are not used by any running node. */
export async function dropViews(execute: Execute, nodes: readonly LiveNode[]): Promise<void> {
  const schemas = await execute(
    `select nspname::text as name from pg_namespace where starts_with(nspname, '${viewsPrefix}')`,
  );
  for (const { name } of schemas) {
    if (!nodes.some(({ views }) => views === name))
      await execute(`drop schema ${quote(String(name))} cascade`);
  }
}

/** Columns whose names start with an underscore and that nodes use. All others belong to migrations. */
const ownColumns = [versionColumn, trashedColumn];

/** Returns SQL that creates a writable view of a table. Accessing it requires permissions on the table. */
const limitedView = (schema: string, table: string): string => `do $view$ begin
  if to_regclass('${quote(schema)}.${quote(table)}') is null then
    execute (select 'create view ${quote(schema)}.${quote(table)} with (security_invoker = true) as select ' || string_agg(quote_ident(attname), ', ' order by attnum) || ' from ${quote(table)}'
      from pg_attribute where attrelid = '${quote(table)}'::regclass and attnum > 0 and not attisdropped and (attname not like '\\_%' or attname in (${ownColumns.map(literal).join(', ')})));
    grant select, insert, update, delete on ${quote(schema)}.${quote(table)} to public;
  end if;
end $view$`;
