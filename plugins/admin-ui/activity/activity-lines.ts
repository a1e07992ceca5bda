import { sql } from 'kysely';
import { errors, type FieldIssue } from '../../../engine/errors.ts';
import { completeTimestamp, isRowId, isStorable, parseInstant } from '../../../engine/fields/index.ts';
import type { Tables } from '../../../engine/tables/index.ts';
import { activityTexts } from './texts/index.ts';

const { later } = activityTexts;

/** Names of actors that are neither users nor keys. */
export const fallbackNames: Readonly<Record<string, string>> = {
  command: 'command line',
  partner: 'partner endpoint',
};

/** A change log entry, with the actor's name at the time of the change. */
export interface ActivityLine {
  /** The entry's position in the log. */
  readonly position: string;
  readonly at: Date;
  readonly actorKind: string;
  /** The user's or key's ID; null for other actors. */
  readonly actorId: string | null;
  readonly actor: string;
  readonly action: string;
  readonly object: string;
  readonly objectId: string | null;
}

const positionPattern = /^(\d{1,19})-(\d{1,18})$/;

/** Parses a position, or returns undefined for invalid input. */
const parsePosition = (text: unknown): readonly [transaction: string, id: string] | undefined => {
  const [, transaction, id] = (typeof text === 'string' ? positionPattern.exec(text) : null) ?? [];
  return transaction === undefined || id === undefined ? undefined : [transaction, id];
};

/** The filters by date share a label, because the filter menu offers them together. */
const dateLabel = later('date');

/** The activity filters: the labels of the field and its operator, and the control for the value. */
export const activityFilters = {
  actor: { label: later('actor'), operator: later('is'), control: 'line' },
  action: { label: later('action'), operator: later('is'), control: 'suggestions' },
  object: { label: later('object'), operator: later('is'), control: 'suggestions' },
  record: { label: later('id'), operator: later('is'), control: 'line' },
  from: { label: dateLabel, operator: later('from'), control: 'day' },
  until: { label: dateLabel, operator: later('until'), control: 'day' },
} as const;

/** The time filters in {@link activityFilters}, with their comparison operators. */
const times = { from: '>=', until: '<=' } as const;

type Parameters = Readonly<Record<string, string | undefined>>;

/**
 * Parses the time filters, and returns them as strings for PostgreSQL.
 * @throws HttpError 400 naming each parameter that is not a date or timestamp
 */
export function activityTimes(parameters: Parameters): ReadonlyMap<keyof typeof times, string> {
  const issues: FieldIssue[] = [];
  const instants = new Map<keyof typeof times, string>();
  for (const name of Object.keys(times) as (keyof typeof times)[]) {
    const text = parameters[name];
    if (text === undefined) continue;
    // An unescaped "+" in a URL is decoded as a space.
    const at = parseInstant(completeTimestamp(text.replace(/(T\S+) (\d\d:\d\d)$/i, '$1+$2')) ?? '');
    if (at !== undefined) instants.set(name, at);
    else {
      const message = `${name} must be a date (for example 2026-03-01) or an RFC 3339 timestamp (for example 2026-03-01T09:30:00+01:00)`;
      issues.push({ field: name, message });
    }
  }
  if (issues.length > 0) throw errors.invalidFields(issues);
  return instants;
}

/**
 * Returns entries from an organization's change log, newest first.
 * @param filters values of {@link activityFilters}. A value that no entry can have matches nothing
 * @param before position of the last entry on the previous page. Any other value starts with the newest entry
 * @throws HttpError in the same cases as {@link activityTimes}
 */
export async function listActivity(
  tables: Tables,
  organization: string,
  { filters, before, limit }: { filters: Parameters; before?: unknown; limit: number },
): Promise<ActivityLine[]> {
  const position = parsePosition(before);
  const instants = activityTimes(filters);
  if (!Object.values(filters).every((text) => text === undefined || isStorable(text))) return [];
  let query = tables
    .selectFrom('crm_ledger')
    .select([
      'transaction',
      'id',
      'at',
      'actor_kind',
      'actor_id',
      'actor_name',
      'action',
      'object',
      'object_id',
    ])
    .where('organization_id', '=', organization);
  if (position !== undefined) {
    query = query.where(({ eb, refTuple, tuple }) =>
      eb(refTuple('transaction', 'id'), '<', tuple(...position)),
    );
  }
  const { actor, action, object, record } = filters;
  if (actor !== undefined) {
    const kind = Object.keys(fallbackNames).find((name) => fallbackNames[name] === actor);
    query = kind === undefined ? query.where('actor_name', '=', actor) : query.where('actor_kind', '=', kind);
  }
  if (action !== undefined) query = query.where('action', '=', action);
  if (object !== undefined) query = query.where('object', '=', object);
  if (record !== undefined) {
    if (!isRowId(record)) return [];
    query = query.where('object_id', '=', record);
  }
  for (const [name, at] of instants)
    query = query.where('at', times[name], sql<Date>`${at}::text::timestamptz`);
  const rows = await query.orderBy('transaction', 'desc').orderBy('id', 'desc').limit(limit).execute();
  return rows.map((row) => ({
    position: `${row.transaction}-${row.id}`,
    at: row.at,
    actorKind: row.actor_kind,
    actorId: row.actor_id,
    actor: row.actor_name ?? fallbackNames[row.actor_kind] ?? `ID ${row.actor_id}`,
    action: row.action,
    object: row.object,
    objectId: row.object_id,
  }));
}
