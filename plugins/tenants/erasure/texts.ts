import { personalDataTables } from '../../../engine/tables/index.ts';
import type { PersonalTraces } from './erasure.ts';

/** Describes where data about a person was found, and how much. */
export function describeTraces({
  records,
  changes,
  rows,
}: PersonalTraces): (readonly [location: string, description: string])[] {
  return [
    ...[...records]
      .filter(([, ids]) => ids.length > 0)
      .map(([name, ids]) => [name, `${ids.length === 1 ? 'record' : 'records'} ${ids.join(', ')}`] as const),
    ...(changes > 0 ? [['changes in the change log', String(changes)] as const] : []),
    ...[...rows]
      .filter(([, count]) => count > 0)
      .map(([table, count]) => [personalDataTables.get(table)?.label ?? table, String(count)] as const),
  ];
}

/** Lists the records that mention the person but stay unchanged. */
export const mentionsOf = ({ mentions }: PersonalTraces): string =>
  [...mentions].map(([name, ids]) => `${name} ${ids.join(', ')}`).join('; ');

/** Converts a search result to the command's JSON output. */
export const asJsonObject = (traces: PersonalTraces) => ({
  records: Object.fromEntries(traces.records),
  texts: traces.texts,
  changes: traces.changes,
  rows: Object.fromEntries(traces.rows),
  mentions: Object.fromEntries(traces.mentions),
});
