import { CompiledQuery, sql } from 'kysely';
import { quote } from '../../../engine/sql/index.ts';
import type { Tables } from '../../../engine/tables/index.ts';
import type { BackupLines, StoredTable } from './file.ts';

/** Approximate size of a batch in bytes, and maximum number of rows in a batch. */
const [batchBytes, batchRows] = [512 * 1024, 5000];

/** Runs a statement with string parameters in a transaction. @returns the rows */
export const run = async <Row>(tables: Tables, text: string, ...values: readonly string[]): Promise<Row[]> =>
  (await tables.executeQuery<Row>(CompiledQuery.raw(text, [...values]))).rows;

/**
 * Removes a transaction's timeouts, and sets output formats so that a value has the same text representation
 * wherever it is read or written.
 */
export async function removeTimeouts(tables: Tables): Promise<void> {
  const settings = [
    'statement_timeout = 0',
    'idle_in_transaction_session_timeout = 0',
    "time zone 'UTC'",
    "datestyle = 'ISO'",
    "intervalstyle = 'postgres'",
    "bytea_output = 'hex'",
    'extra_float_digits = 1',
  ];
  for (const setting of settings) await run(tables, `set local ${setting}`);
}

/** Returns the columns of these tables, sorted by name. Generated columns are excluded. */
export async function backupColumns(tables: Tables, names: readonly string[]): Promise<StoredTable[]> {
  const { rows } = await sql<{ table: string; name: string; type: string }>`
    select c.relname::text as table, a.attname::text as name, format_type(a.atttypid, a.atttypmod) as type
    from pg_attribute a join pg_class c on c.oid = a.attrelid
    where c.relnamespace = current_schema()::regnamespace and c.relkind in ('r', 'p') and c.relname = any(${names}::text[])
      and a.attnum > 0 and not a.attisdropped and a.attgenerated = ''
    order by a.attname`.execute(tables);
  return names.map((name) => ({
    name,
    columns: rows.filter(({ table }) => table === name).map((column) => [column.name, column.type] as const),
  }));
}

/** Yields a table's rows in batches. Each row is a JSON array that contains its values as strings. */
export async function* rowsOf(tables: Tables, { name, columns }: StoredTable): BackupLines {
  const values = columns.map(([column]) => `${quote(column)}::text`).join(', ');
  await run(
    tables,
    `declare crm_rows no scroll cursor for select json_build_array(${values})::text as row from ${quote(name)}`,
  );
  for (let count = 100; ; ) {
    const batch = await run<{ row: string }>(tables, `fetch ${count} from crm_rows`);
    if (batch.length === 0) break;
    yield batch.map(({ row }) => row);
    const bytes = batch.reduce((sum, { row }) => sum + row.length, 0);
    count = Math.min(batchRows, Math.max(1, Math.floor((batchBytes * batch.length) / bytes)));
  }
  await run(tables, 'close crm_rows');
}

/** Inserts rows in the format that {@link rowsOf} yields. */
export async function insertRows(
  tables: Tables,
  { name, columns }: StoredTable,
  rows: readonly string[],
): Promise<void> {
  const names = columns.map(([column]) => quote(column)).join(', ');
  const values = columns.map(([, type], index) => `(r ->> ${index})::${type}`).join(', ');
  await run(
    tables,
    `insert into ${quote(name)} (${names}) overriding system value select ${values} from json_array_elements($1::json) r`,
    `[${rows.join(',')}]`,
  );
}

/** Returns the sequences of identity columns, keyed by `table.column`. */
export async function backupSequences(
  tables: Tables,
  names: readonly string[],
): Promise<ReadonlyMap<string, string>> {
  const { rows } = await sql<{ column: string; sequence: string }>`
    select c.relname || '.' || a.attname as column, pg_get_serial_sequence(quote_ident(c.relname), a.attname) as sequence
    from pg_attribute a join pg_class c on c.oid = a.attrelid
    where c.relnamespace = current_schema()::regnamespace and c.relkind in ('r', 'p') and c.relname = any(${names}::text[])
      and a.attidentity <> '' order by 1`.execute(tables);
  return new Map(rows.map(({ column, sequence }) => [column, sequence]));
}
