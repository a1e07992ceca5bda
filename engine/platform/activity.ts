import type { Config } from '../config.ts';
import type { Platform } from './handle.ts';

/** Who changes something, as the activity names them. */
export interface Actor {
  readonly kind: 'user' | 'key' | 'command' | 'partner';
  /** Id of the user or key; null for the command line. */
  readonly id: string | null;
  readonly requestId: string | null;
  /** Whether the instance notes activity at all. */
  readonly noted: boolean;
}

/** The command line as an actor; the demo organization is its work too. */
export const commandLine = ({ audit }: Pick<Config, 'audit'>): Actor => ({
  kind: 'command',
  id: null,
  requestId: null,
  noted: audit,
});

/** One thing that was done in an organization. */
export interface Entry {
  readonly organization: string;
  /** A verb, such as create, update, delete, revoke, login. */
  readonly action: string;
  /** A resource, or key, member, profile, invite, session, organization. */
  readonly object: string;
  readonly objectId: string | null;
}

/** Notes what was done. Called in the transaction that does it, so that neither is there without the other. */
export async function note(tables: Platform, actor: Actor, ...entries: readonly Entry[]): Promise<void> {
  if (!actor.noted || entries.length === 0) return;
  await tables
    .insertInto('crm_activity')
    .values(
      entries.map((entry) => ({
        organization_id: entry.organization,
        actor_kind: actor.kind,
        actor_id: actor.id,
        action: entry.action,
        object: entry.object,
        object_id: entry.objectId,
        request_id: actor.requestId,
      })),
    )
    .execute();
}

/** Actors that are not people or keys. */
const unnamed: Readonly<Record<string, string>> = { command: 'command line', partner: 'partner endpoint' };

/** A line of the activity, with the actor's name where it still has one. */
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
 * What was done in an organization, newest first.
 * @param before id to go on from; undefined for the newest
 */
export async function listActivity(
  tables: Platform,
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
    id: String(row.id),
    at: new Date(row.at),
    actorKind: row.actor_kind,
    actor: row.email ?? row.name ?? unnamed[row.actor_kind] ?? `no. ${row.actor_id}`,
    action: row.action,
    object: row.object,
    objectId: row.object_id === null ? null : String(row.object_id),
  }));
}
