import type { Tables } from '../../engine/tables/index.ts';

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

/**
 * The ledger of an organization, newest first.
 * @param before lists lines before the one at this place; anything else: from the newest
 */
export async function listActivity(
  tables: Tables,
  organization: string,
  { before, limit }: { before?: unknown; limit: number },
): Promise<ActivityLine[]> {
  const place = placeOf(before);
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
