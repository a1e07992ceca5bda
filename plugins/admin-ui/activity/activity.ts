import { isRowId, isStorable } from '../../../engine/fields/index.ts';
import type { Tables } from '../../../engine/tables/index.ts';

/** Actors that are not people or keys. */
const unnamed: Readonly<Record<string, string>> = { command: 'command line', partner: 'partner endpoint' };

/** A line of the ledger, with the name that the actor had. */
export interface ActivityLine {
  /** Its place in the order. */
  readonly place: string;
  readonly at: Date;
  readonly actorKind: string;
  readonly actor: string;
  readonly action: string;
  readonly object: string;
  readonly objectId: string | null;
}

const placeForm = /^(\d{1,19})-(\d{1,18})$/;

/** The place of a line in the order; undefined for what is none. */
const placeOf = (text: unknown): readonly [transaction: string, id: string] | undefined => {
  const [, transaction, id] = (typeof text === 'string' ? placeForm.exec(text) : null) ?? [];
  return transaction === undefined || id === undefined ? undefined : [transaction, id];
};

/** What activity can be filtered by, each with its words before the value. */
export const activityFilters = {
  actor: { label: 'Who is' },
  action: { label: 'Action is' },
  object: { label: 'Object is' },
  record: { label: 'Number is' },
  from: { label: 'From' },
  until: { label: 'Until' },
} as const;

/** A time as people type it, a day or RFC 3339; undefined for what is none. */
function timeOf(text: string): Date | undefined {
  const at = new Date(text.trim().replace(' ', 'T'));
  return Number.isNaN(at.getTime()) ? undefined : at;
}

/**
 * The ledger of an organization, newest first.
 * @param asked values of {@link activityFilters}; what cannot be one finds nothing
 * @param before lists lines before the one at this place; anything else: from the newest
 */
export async function listActivity(
  tables: Tables,
  organization: string,
  {
    asked,
    before,
    limit,
  }: { asked: { readonly [name: string]: string | undefined }; before?: unknown; limit: number },
): Promise<ActivityLine[]> {
  const place = placeOf(before);
  if (!Object.values(asked).every((text) => text === undefined || isStorable(text))) return [];
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
  if (place !== undefined) {
    query = query.where(({ eb, refTuple, tuple }) => eb(refTuple('transaction', 'id'), '<', tuple(...place)));
  }
  const { actor, action, object, record, from, until } = asked;
  if (actor !== undefined) {
    const kind = Object.keys(unnamed).find((each) => unnamed[each] === actor);
    query = kind === undefined ? query.where('actor_name', '=', actor) : query.where('actor_kind', '=', kind);
  }
  if (action !== undefined) query = query.where('action', '=', action);
  if (object !== undefined) query = query.where('object', '=', object);
  if (record !== undefined) {
    if (!isRowId(record)) return [];
    query = query.where('object_id', '=', record);
  }
  for (const [text, comparison] of [
    [from, '>='],
    [until, '<='],
  ] as const) {
    if (text === undefined) continue;
    const at = timeOf(text);
    if (at === undefined) return [];
    query = query.where('at', comparison, at);
  }
  const rows = await query.orderBy('transaction', 'desc').orderBy('id', 'desc').limit(limit).execute();
  return rows.map((row) => ({
    place: `${row.transaction}-${row.id}`,
    at: row.at,
    actorKind: row.actor_kind,
    actor: row.actor_name ?? unnamed[row.actor_kind] ?? `no. ${row.actor_id}`,
    action: row.action,
    object: row.object,
    objectId: row.object_id,
  }));
}
