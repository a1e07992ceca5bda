import type { Tables } from '../../engine/tables/index.ts';

/** Actors that are not people or keys. */
const unnamed: Readonly<Record<string, string>> = { command: 'command line', partner: 'partner endpoint' };

/** A line of the audit log, with the actor's name if it still exists. */
export interface ActivityLine {
  readonly id: string;
  readonly at: Date;
  readonly actorKind: string;
  readonly actor: string;
  readonly action: string;
  readonly object: string;
  readonly objectId: string | null;
}

/**
 * The audit log of an organization, newest first.
 * @param before lists entries before this id; undefined for the newest
 */
export async function listActivity(
  tables: Tables,
  organization: string,
  { before, limit }: { before?: string | undefined; limit: number },
): Promise<ActivityLine[]> {
  let query = tables
    .selectFrom('crm_activity as a')
    .leftJoin('crm_users as u', (join) =>
      join.onRef('u.id', '=', 'a.actor_id').on('a.actor_kind', '=', 'user'),
    )
    .leftJoin('crm_api_keys as k', (join) =>
      join
        .onRef('k.organization_id', '=', 'a.organization_id')
        .onRef('k.id', '=', 'a.actor_id')
        .on('a.actor_kind', '=', 'key'),
    )
    .select(['a.id', 'a.at', 'a.actor_kind', 'a.actor_id', 'a.action', 'a.object', 'a.object_id'])
    .select(['u.email', 'k.name'])
    .where('a.organization_id', '=', organization);
  if (before !== undefined) query = query.where('a.id', '<', before);
  const rows = await query.orderBy('a.id', 'desc').limit(limit).execute();
  return rows.map((row) => ({
    id: row.id,
    at: row.at,
    actorKind: row.actor_kind,
    actor: row.email ?? row.name ?? unnamed[row.actor_kind] ?? `no. ${row.actor_id}`,
    action: row.action,
    object: row.object,
    objectId: row.object_id,
  }));
}
