import type { Database, TextRows } from '../../../engine/database/index.ts';
import { literal, prepare, quote } from '../../../engine/sql/index.ts';
import type { QuotaUsage } from './quota.ts';

/** Number of rows that one statement counts. Counting them takes a few milliseconds. */
const rowsPerStatement = 20_000;
/** Size of a row in addition to its values, in bytes. */
const rowOverhead = 28;

/** Counts an organization's records. `tookMs` is the total run time of the statements, without queueing. */
export type Measure = (
  organization: string,
  withBytes: boolean,
) => Promise<QuotaUsage & { readonly tookMs: number }>;

/**
 * Creates a function that counts records. The function reads each table in key order with short statements, so that
 * statements from requests can run in between.
 * @param names the resources' tables
 */
export function createMeasure(database: Database, names: readonly string[]): Measure {
  return async (organization, withBytes) => {
    let [records, bytes, tookMs] = [0, 0, 0];
    const run = (text: string, values: readonly string[] = []) =>
      database.admission.run('scan', organization, async () => {
        const startedAt = performance.now();
        const rows = await database.run({ name: '', text, values, lane: 'scan' });
        tookMs += performance.now() - startedAt;
        return rows;
      });
    for (const name of names) {
      const bytesOfRow = withBytes ? await sizeOf(run, name) : '0';
      let after = '0';
      for (let rowCount = rowsPerStatement; rowCount === rowsPerStatement; ) {
        const { text, values } = prepare<{ readonly after: string }>('', 'scan', ($) => {
          const bound = `t."organization_id" = ${$(() => organization)}::bigint and t."id" > ${$(({ after }) => after)}::bigint`;
          return `select count(*)::text, coalesce(sum(_bytes), 0)::text, max("id")::text from (select t."id", ${bytesOfRow} as _bytes from ${quote(name)} t where ${bound} order by t."id" limit ${rowsPerStatement}) _t`;
        }).bind({ after });
        const [[count, size, lastId] = []] = await run(text, values as readonly string[]);
        rowCount = Number(count);
        records += rowCount;
        bytes += Number(size);
        after = String(lastId ?? after);
      }
    }
    return { records, bytes, tookMs };
  };
}

/** Returns an SQL expression for a row's size in bytes. It does not read values that are stored out of line. */
async function sizeOf(run: (text: string) => Promise<TextRows>, name: string): Promise<string> {
  const columns = await run(
    `select attname::text from pg_attribute where attrelid = ${literal(quote(name))}::regclass and attnum > 0 and not attisdropped`,
  );
  return [
    String(rowOverhead),
    ...columns.map(([column]) => `coalesce(pg_column_size(t.${quote(String(column))}), 0)`),
  ].join(' + ');
}
