import { UserError } from '../errors.ts';
import { literal, quote } from '../sql/index.ts';
import { viewsPrefix } from './nodes.ts';
import type { Execute } from './session.ts';

/** Columns whose types change, and the dependent objects that the migration replaces. */
export interface RetypedColumns {
  readonly table: string;
  readonly columns: readonly string[];
  /** Names of indexes and constraints that the migration replaces. */
  readonly known: readonly string[];
}

/**
 * Returns SQL that selects objects that use the columns but were not created by a migration: indexes,
 * constraints, triggers, views, generated columns, policies and functions. A type change would drop them
 * together with the old column, or fail.
 */
export const dependentsSql = ({ table, columns, known }: RetypedColumns): string =>
  `select distinct case when v.oid is null then pg_describe_object(d.classid, d.objid, 0) else 'view ' || v.oid::regclass end as name
   from pg_depend d join pg_attribute a on a.attrelid = d.refobjid and a.attnum = d.refobjsubid
   left join pg_rewrite r on d.classid = 'pg_rewrite'::regclass and r.oid = d.objid left join pg_class v on v.oid = r.ev_class
   left join pg_class i on d.classid = 'pg_class'::regclass and i.oid = d.objid
   left join pg_constraint c on d.classid = 'pg_constraint'::regclass and c.oid = d.objid
   left join pg_attrdef f on d.classid = 'pg_attrdef'::regclass and f.oid = d.objid
   where d.refclassid = 'pg_class'::regclass and d.refobjid = '${quote(table)}'::regclass and a.attname in (${columns.map(literal).join(', ')})
     and coalesce(i.relname, c.conname, '') <> all (array[${known.map(literal).join(', ')}]::text[])
     and c.contype is distinct from 'n' and f.adnum is distinct from a.attnum
     and not (v.oid is not null and starts_with(v.relnamespace::regnamespace::text, '${viewsPrefix}'))
   order by 1`;

/**
 * Checks that a type change does not drop objects that were not created by a migration.
 * @throws UserError with the objects
 */
export async function assertNoDependents(
  execute: Execute,
  columns: RetypedColumns,
  progressNote: string,
): Promise<void> {
  const rows = await execute(dependentsSql(columns));
  if (rows.length === 0) return;
  const names = columns.columns.map((column) => `${columns.table}.${column}`).join(', ');
  const pronoun = rows.length === 1 ? 'it' : 'them';
  throw new UserError(
    `the type of ${names} cannot change, because the migration would drop objects that no migration created: ${rows.map(({ name }) => name).join(', ')}. ${progressNote} Drop ${pronoun}, migrate, then create ${pronoun} again.`,
  );
}
