import type { FastifyInstance } from 'fastify';
import { sql } from 'kysely';
import type { Resource, ResourceView } from '../../../engine/compile/index.ts';
import type { Database } from '../../../engine/database/index.ts';
import { errors, HttpError } from '../../../engine/errors.ts';
import { parseOwnJson } from '../../../engine/fields/index.ts';
import {
  allows,
  approverName,
  type Body,
  type Caller,
  type CompiledAction,
  customFieldsIn,
  dryRun,
  type EveryInput,
  type Executor,
  inTransaction,
  runOperation,
  type TransactionExecutor,
} from '../../../engine/records/index.ts';
import { type RowSource, statementOf, tablesOf } from '../../../engine/tables/index.ts';
import { proposalState } from './proposals.ts';
import type { ProposalStatus } from './tables.ts';

/** A stored proposal. */
export interface Proposal {
  readonly id: string;
  readonly keyId: string;
  /** Name of the key. */
  readonly key: string;
  /** Name and email address of the member on whose behalf the key acts; null for an ordinary key. */
  readonly member: string | null;
  readonly memberEmail: string | null;
  readonly tool: string;
  readonly resource: string;
  readonly recordId: string | null;
  readonly action: string;
  readonly body: string;
  readonly tag: string;
  readonly run: string | null;
  readonly status: ProposalStatus;
  readonly reason: string;
  readonly created_at: Date;
  readonly expires_at: Date;
  readonly decidedBy: string | null;
  readonly decidedByEmail: string | null;
  readonly decided_at: Date | null;
}

/** An organization's proposals, newest first. */
export const proposalRows: RowSource<Proposal> = {
  from: `crm_proposals p
    join crm_api_keys k on k.organization_id = p.organization_id and k.id = p.key_id
    left join crm_users m on m.id = k.on_behalf_of_id
    left join crm_users d on d.id = p.decided_by_id`,
  owner: 'p.organization_id',
  columns: {
    id: 'p.id',
    keyId: 'p.key_id',
    key: 'k.name',
    member: 'm.name',
    memberEmail: 'm.email',
    tool: 'p.tool',
    resource: 'p.resource',
    recordId: 'p.record_id',
    action: 'p.action',
    body: 'p.body',
    tag: 'p.tag',
    run: 'p.run',
    status: 'p.status',
    reason: 'p.reason',
    created_at: 'p.created_at',
    expires_at: 'p.expires_at',
    decidedBy: 'd.name',
    decidedByEmail: 'd.email',
    decided_at: 'p.decided_at',
  },
  search: ['k.name', 'p.resource'],
  order: 'p.id desc',
};

/** The properties of a proposal that determine the grant it requires. */
export type ProposedOperation = Pick<Proposal, 'tool' | 'resource' | 'action'>;

/** The operations of an organization's proposals and the sizes of their bodies, in bytes, newest first. */
export const proposalSizes: RowSource<ProposedOperation & { readonly id: string; readonly size: number }> = {
  ...proposalRows,
  columns: {
    id: 'p.id',
    tool: 'p.tool',
    resource: 'p.resource',
    action: 'p.action',
    size: 'octet_length(p.body)',
  },
};

/**
 * Returns the grant that a proposal requires on its resource: the tool's name, except for actions of modules. Undefined if the
 * instance no longer has the action.
 */
export const grantOf = (
  { tool, action }: Pick<Proposal, 'tool' | 'action'>,
  { actions }: Pick<ResourceView, 'actions'>,
): string | undefined => (tool === 'act' ? actions.find(({ name }) => name === action)?.grant : tool);

/** Returns the values or the action's input of a proposal. */
export const proposedBody = ({ body }: Pick<Proposal, 'body'>): Body => parseOwnJson(body) as Body;

/** Why a proposal was not approved: another decision, its key, its record, or an error of the write, which can be tried again. */
export type ApprovalFailure = 'decided' | 'expired' | 'key' | 'outdated' | HttpError;

/** Decides about proposals. */
export interface Approvals {
  /**
   * Performs a proposed write as the approver, if both the key and the approver can perform it and the record has not changed.
   * @param approver its grants are checked by the write
   * @param tag the record's entity tag as the approver sees it
   * @returns undefined on success
   */
  readonly approve: (
    proposal: Proposal,
    approver: Caller,
    tag: string,
  ) => Promise<ApprovalFailure | undefined>;
  /** Rejects a proposal. @returns whether it was pending */
  readonly reject: (proposal: Proposal, user: Caller, reason: string) => Promise<boolean>;
}

/** Thrown within the transaction of an approval to roll it back. */
class NotApproved extends Error {
  override readonly name = 'NotApproved';
  readonly failure: ApprovalFailure;
  constructor(failure: ApprovalFailure) {
    super('the proposal was not approved');
    this.failure = failure;
  }
}

/** A caller who performs a proposal, or for whom it is checked. */
interface Performer {
  readonly caller: Caller;
  readonly view: ResourceView;
  /** The record's entity tag in the view; empty if the write does not depend on the record's version. */
  readonly tag: string;
}

/** Prepares decisions about proposals. */
export function prepareApprovals(
  app: FastifyInstance,
  { database, resources }: { readonly database: Database; readonly resources: readonly Resource[] },
): Approvals {
  const tables = tablesOf(database);

  /** Returns the input of the operations with which a caller performs a proposal. */
  const inputOf = async ({ recordId, body }: Proposal, { view, caller, tag }: Performer) => ({
    ...{ caller, strict: true, body: proposedBody({ body }), id: recordId ?? '' },
    conditions: tag === '' ? undefined : { match: [tag] },
    customFields: await customFieldsIn(database, view, caller),
  });

  /** Ends a pending proposal because its record has changed. */
  const end = async (organization: string, { id }: Proposal): Promise<'outdated'> => {
    await tables
      .updateTable('crm_proposals')
      .set({ status: 'outdated', decided_at: new Date() })
      .where('organization_id', '=', organization)
      .where('id', '=', id)
      .where('status', '=', 'pending')
      .execute();
    return 'outdated';
  };

  /** Checks that a caller can perform a proposal on the unchanged record. @returns why not */
  const check = async (
    proposal: Proposal,
    performer: Performer,
  ): Promise<'key' | 'outdated' | HttpError | undefined> => {
    const input = await inputOf(proposal, performer);
    if (performer.tag !== '') {
      const tag = await tagOf(database, performer, input.id).catch(rejected);
      if (tag !== performer.tag) return 'outdated';
    }
    const isAction = proposal.tool === 'act';
    try {
      await dryRun(database, performer.caller, proposal.tool === 'create' ? 1 : 0, async (executor) =>
        isAction
          ? actionOf(proposal, performer.view).check(executor, input)
          : performTool(executor, proposal, performer.view, input),
      );
      return undefined;
    } catch (cause) {
      const failure = rejected(cause);
      if (failure.status === 412) return 'outdated';
      return failure.status === 403 || failure.status === 404 ? 'key' : failure;
    }
  };

  /** Marks a proposal as approved in a transaction, if it is pending and its key is live. */
  const claim = async (
    executor: TransactionExecutor,
    organization: string,
    { id, keyId }: Proposal,
    user: string | null,
  ): Promise<void> => {
    const claimed = await executor.run(
      statementOf(
        sql`update crm_proposals set status = 'approved', decided_by_id = ${user}::bigint, decided_at = now()
          where organization_id = ${organization}::bigint and id = ${id}::bigint and status = 'pending' and expires_at > now()
          returning id`.compile(tables),
      ),
    );
    if (claimed.length === 0) throw errors.internal(new NotApproved('decided'));
    const live = await executor.run(
      statementOf(
        sql`select id from crm_api_keys where organization_id = ${organization}::bigint and id = ${keyId}::bigint
          and proposes and revoked_at is null and (expires_at is null or expires_at > now()) for share`.compile(
          tables,
        ),
      ),
    );
    if (live.length === 0) throw errors.internal(new NotApproved('key'));
  };

  const approve: Approvals['approve'] = async (proposal, approver, tag) => {
    const { principal, requestId } = approver;
    const { organization } = principal;
    const state = proposalState(proposal);
    if (state !== 'pending') return state === 'expired' ? 'expired' : 'decided';
    const resource = resources.find(({ name }) => name === proposal.resource);
    const key = await app.principalAgain({ kind: 'key', actor: proposal.keyId, organization });
    if (key?.proposes === undefined) return 'key';
    const proposer = { principal: { ...key, grants: key.proposes }, requestId };
    const views = [proposer, approver].map((caller) => resource?.viewFor(caller.principal.grants));
    const [proposerView, approverView] = views;
    if (proposerView === undefined || approverView === undefined) return end(organization, proposal);
    const grant = grantOf(proposal, approverView);
    if (grant === undefined) return end(organization, proposal);
    if (!allows(key.proposes, proposerView.context.stored, grant)) return 'key';
    if (!allows(principal.grants, approverView.context.stored, grant))
      return errors.forbidden(approverView.name, grant);
    const issue = await check(proposal, { caller: proposer, view: proposerView, tag: proposal.tag });
    if (issue === 'outdated') return end(organization, proposal);
    // An error for the key can contain values that the approver cannot see.
    if (issue instanceof HttpError)
      return (await check(proposal, { caller: approver, view: approverView, tag })) ?? 'key';
    if (issue !== undefined) return issue;

    const name = approverName(principal.name, proposal.id, proposal.key);
    const performer = { caller: { principal: { ...principal, name }, requestId }, view: approverView, tag };
    const input = await inputOf(proposal, performer);
    try {
      await inTransaction(
        database,
        performer.caller,
        proposal.tool === 'create' ? 1 : 0,
        async (executor) => {
          await claim(executor, organization, proposal, principal.user);
          if (proposal.tool === 'act') {
            if (tag !== '' && (await tagOf(executor, performer, input.id)) !== tag)
              throw errors.preconditionFailed();
            const { id, ...ofCollection } = input;
            const target = proposal.recordId === null ? ofCollection : { ...ofCollection, id };
            await actionOf(proposal, approverView).run(executor, target);
            return;
          }
          const created = await performTool(executor, proposal, approverView, input);
          if (created === undefined) return;
          await executor.run(
            statementOf(
              sql`update crm_proposals set record_id = ${created}::bigint
              where organization_id = ${organization}::bigint and id = ${proposal.id}::bigint`.compile(
                tables,
              ),
            ),
          );
        },
      );
      return undefined;
    } catch (cause) {
      if (cause instanceof HttpError && cause.cause instanceof NotApproved) return cause.cause.failure;
      const failure = rejected(cause);
      return failure.status === 412 ? end(organization, proposal) : failure;
    }
  };

  const reject: Approvals['reject'] = async ({ id }, { principal }, reason) => {
    const row = await tables
      .updateTable('crm_proposals')
      .set({ status: 'rejected', reason, decided_by_id: principal.user, decided_at: new Date() })
      .where('organization_id', '=', principal.organization)
      .where('id', '=', id)
      .where('status', '=', 'pending')
      .returning('id')
      .executeTakeFirst();
    return row !== undefined;
  };
  return { approve, reject };
}

/** Returns the error with which a request was rejected. @throws unknown any other failure */
function rejected(cause: unknown): HttpError {
  if (cause instanceof HttpError && cause.status < 500) return cause;
  throw cause;
}

/** Returns a record's entity tag as a caller sees it. @throws HttpError 404 if it does not exist */
async function tagOf(
  executor: Executor,
  { caller, view }: Performer,
  id: string,
): Promise<string | undefined> {
  return (await runOperation(executor, view.operations.read, { caller, id })).tag;
}

/** Returns the compiled action of a proposal. */
function actionOf({ action: name }: Proposal, view: ResourceView): CompiledAction {
  const action = view.actions.find((candidate) => candidate.name === name);
  if (action === undefined) throw errors.notFound();
  return view.actionNamed(action.module, action.name);
}

/** Performs the write of any other tool. @returns ID of the created record, if any */
async function performTool(
  executor: Executor,
  { tool }: Proposal,
  { operations }: ResourceView,
  input: EveryInput,
): Promise<string | undefined> {
  const { create, patch, remove, restore } = operations;
  if (tool === 'create') return (await runOperation(executor, create, input)).id;
  if (tool === 'update') await runOperation(executor, patch, input);
  else if (tool === 'delete') await runOperation(executor, remove, input);
  else if (restore === undefined) throw errors.notFound();
  else await runOperation(executor, restore, input);
  return undefined;
}
