import type { Tables } from '../tables/index.ts';

/** The configuration setting that enables the change log. */
export interface AuditConfig {
  readonly audit: boolean;
}

/** The author of a change, as recorded in the change log. */
export interface Actor {
  readonly kind: 'user' | 'key' | 'command' | 'partner';
  /** ID of the user or key, or null for CLI commands and partners. */
  readonly id: string | null;
  /** The user's email address or the key's name, or null for CLI commands and partners. */
  readonly name: string | null;
  readonly requestId: string | null;
  /** Whether the instance records changes. */
  readonly audited: boolean;
}

/** Returns the actor for changes made by CLI commands, including creation of the demo organization. */
export const commandLine = ({ audit }: AuditConfig): Actor => ({
  kind: 'command',
  id: null,
  name: null,
  requestId: null,
  audited: audit,
});

/** One change in an organization. */
interface ChangeLogEntry {
  readonly organization: string;
  /** A verb, for example `create`, `update`, `delete`, `revoke` or `login`. */
  readonly action: string;
  /** A resource name, or `key`, `member`, `profile`, `invite`, `session` or `organization`. */
  readonly object: string;
  readonly objectId: string | null;
}

/** Records changes in the change log, in the same transaction as the changes. */
export async function recordChanges(
  tables: Tables,
  actor: Actor,
  ...changes: readonly ChangeLogEntry[]
): Promise<void> {
  if (!actor.audited || changes.length === 0) return;
  await tables
    .insertInto('crm_ledger')
    .values(
      changes.map((change) => ({
        organization_id: change.organization,
        actor_kind: actor.kind,
        actor_id: actor.id,
        actor_name: actor.name,
        action: change.action,
        object: change.object,
        object_id: change.objectId,
        request_id: actor.requestId,
      })),
    )
    .execute();
}
