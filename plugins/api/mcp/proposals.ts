import { sql } from 'kysely';
import { errors } from '../../../engine/errors.ts';
import { documentText, ExactNumber } from '../../../engine/fields/index.ts';
import { deleteExpired } from '../../../engine/modules/index.ts';
import { runOperation } from '../../../engine/records/index.ts';
import { type TableRows, type Tables, tablesOf } from '../../../engine/tables/index.ts';
import type { ProposalStatus } from './tables.ts';
import { type Arguments, permit, readArguments, type Tool, type ToolCall, type ToolResult } from './tool.ts';

/** Number of days after which a pending proposal expires, and after which an expired or decided one is deleted. */
const [expiryDays, retentionDays] = [30, 30];

/** Deletes a batch of old proposals. @returns the number of deleted rows */
export const proposalsRetention = (tables: Tables): Promise<number> =>
  deleteExpired(
    tables,
    'crm_proposals',
    ['organization_id', 'id'],
    // A proposal is decided before it expires.
    sql`(expires_at < now() - ${retentionDays}::int * interval '1 day' or decided_at < now() - ${retentionDays}::int * interval '1 day')`,
    'expires_at',
  );

/** The state of a proposal as shown to agents and people. */
export type ProposalState = ProposalStatus | 'expired';

/** Returns the state of a stored proposal. */
export const proposalState = ({
  status,
  expires_at,
}: {
  readonly status: ProposalStatus;
  readonly expires_at: Date;
}): ProposalState => (status === 'pending' && expires_at <= new Date() ? 'expired' : status);

/** The properties of a proposal that its call determines. */
type ProposedCall = Pick<TableRows['crm_proposals'], 'tool' | 'resource' | 'record_id' | 'action' | 'body'>;

const callColumns = ['tool', 'resource', 'record_id', 'action', 'body'] as const;

/** Maximum number of proposals that `describe` lists. */
const maxListed = 50;

const proposedNote = 'Nothing was written. A person approves or rejects each proposal in the admin UI.';

/** What agents with proposals need to know. */
export const proposalsNote =
  'Your writes become proposals: nothing is written until a person approves them. Call describe with "proposals": true for their status.';

/**
 * Proposes the writes of a call: one for each record, so that a person can decide about each.
 * @throws HttpError in the same cases as the dry run of the first record that cannot be written
 */
export async function proposeAll(
  call: ToolCall,
  tool: Tool,
  args: Arguments,
  context: Parameters<typeof propose>[3],
): Promise<ToolResult> {
  if (!args.has('ids')) return propose(call, tool, args, context);
  if (args.has('id')) throw errors.invalidParameter('id', 'or ids is required, but not both');
  // Rejects the call before the first proposal is stored.
  await tool.run(call, readArguments(tool, { ...context.input, dry_run: true }));
  const { ids: _, confirm: _confirm, ...input } = context.input;
  const proposals: unknown[] = [];
  for (const id of args.ids()) {
    const single = { ...input, id };
    const result = await propose(call, tool, readArguments(tool, single), { ...context, input: single });
    proposals.push(result.proposal);
  }
  return { proposals, note: proposedNote };
}

/**
 * Proposes a write instead of performing it: the write is validated in a dry run, and stored for a person to decide.
 * @param run ID of the run that the call names, without its signature
 * @throws HttpError in the same cases as the dry run
 */
async function propose(
  call: ToolCall,
  tool: Tool,
  args: Arguments,
  { input, run }: { readonly input: Readonly<Record<string, unknown>>; readonly run: string | undefined },
): Promise<ToolResult> {
  const { database, caller } = call;
  const { organization, actor } = caller.principal;
  const tables = tablesOf(database);
  const body = args.object('values') ?? args.object('input') ?? {};
  const key = args.idempotency(body)?.key;
  const proposed: ProposedCall = {
    tool: tool.name,
    resource: args.text('resource') ?? '',
    record_id: args.has('id') && !isOfCollection(call, args) ? args.id() : null,
    action: args.text('action') ?? '',
    body: documentText(body),
  };
  const earlier = async () => {
    if (key === undefined) return undefined;
    const row = await tables
      .selectFrom('crm_proposals')
      .select(['id', 'status', 'expires_at', ...callColumns])
      .where('organization_id', '=', organization)
      .where('key_id', '=', actor)
      .where('idempotency_key', '=', key)
      .executeTakeFirst();
    if (row === undefined) return undefined;
    // An approved proposal contains the ID of the record that it created.
    const names =
      proposed.tool === 'create' ? callColumns.filter((name) => name !== 'record_id') : callColumns;
    if (names.some((name) => row[name] !== proposed[name])) throw errors.keyReused();
    return { proposal: { id: new ExactNumber(row.id), status: proposalState(row) }, replayed: true };
  };
  const repeated = await earlier();
  if (repeated !== undefined) return repeated;
  // Read before the dry run, so that the preview is never older than the version.
  const tag = await readTag(call, args, proposed);
  const { dry_run: _, ...preview } = await tool.run(call, readArguments(tool, { ...input, dry_run: true }));
  const stored = await tables
    .insertInto('crm_proposals')
    .values({
      ...proposed,
      ...{ organization_id: organization, key_id: String(actor), tag },
      ...{ run: run ?? null, idempotency_key: key ?? null },
      ...{
        expires_at: new Date(Date.now() + expiryDays * 86_400_000),
        decided_by_id: null,
        decided_at: null,
      },
    })
    .onConflict((conflict) => conflict.doNothing())
    .returning('id')
    .executeTakeFirst();
  if (stored === undefined) return (await earlier()) ?? Promise.reject(errors.stillRunning());
  return {
    proposal: { id: new ExactNumber(stored.id), status: 'pending' },
    ...preview,
    note: proposedNote,
  };
}

/** Returns whether a call names an action of the collection, which does not have a record. */
const isOfCollection = (call: ToolCall, args: Arguments): boolean =>
  args.view(call).actions.some(({ name, ofCollection }) => name === args.text('action') && ofCollection);

/** Returns the entity tag of the record that a write changes; empty if the write creates or restores it. */
async function readTag(call: ToolCall, args: Arguments, { tool, record_id }: ProposedCall): Promise<string> {
  if (record_id === null || tool === 'restore') return '';
  const view = args.view(call);
  permit(call, view, 'read');
  const input = { caller: call.caller, id: record_id };
  const { tag } = await runOperation(call.database, view.operations.read, input);
  if (tag === undefined) throw errors.internal(undefined);
  return tag;
}

/** Returns the status of the caller's newest proposals. */
export async function describeProposals({ database, caller }: ToolCall): Promise<ToolResult> {
  const rows = await tablesOf(database)
    .selectFrom('crm_proposals')
    .select(['id', 'status', 'expires_at', 'tool', 'resource', 'record_id', 'action', 'reason'])
    .where('organization_id', '=', caller.principal.organization)
    .where('key_id', '=', caller.principal.actor)
    .orderBy('id', 'desc')
    .limit(maxListed)
    .execute();
  return {
    proposals: rows.map((row) => ({
      id: new ExactNumber(row.id),
      status: proposalState(row),
      tool: row.tool,
      resource: row.resource,
      ...(row.record_id !== null && { record: new ExactNumber(row.record_id) }),
      ...(row.action !== '' && { action: row.action }),
      ...(row.reason !== '' && { reason: row.reason }),
    })),
  };
}
