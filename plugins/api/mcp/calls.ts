import { setTimeout as pause } from 'node:timers/promises';
import type { FastifyInstance } from 'fastify';
import { sql } from 'kysely';
import {
  type Database,
  failureDetails,
  foreignKeyViolation,
  sqlState,
} from '../../../engine/database/index.ts';
import { errors } from '../../../engine/errors.ts';
import { deleteExpired } from '../../../engine/modules/index.ts';
import type { Caller, Principal } from '../../../engine/records/index.ts';
import { type TableRows, type Tables, tablesOf } from '../../../engine/tables/index.ts';
import type { ConnectorSettings } from '../../access/oauth/index.ts';
import type { Arguments, Tool, ToolResult } from './tool.ts';

/** Number of days after which calls are deleted. */
export const callRetentionDays = 30;

/** Deletes a batch of old calls. @returns the number of deleted rows */
export const agentCallsRetention = (tables: Tables): Promise<number> =>
  deleteExpired(
    tables,
    'crm_agent_calls',
    ['organization_id', 'id'],
    sql`at < now() - ${callRetentionDays}::int * interval '1 day'`,
    'at',
  );

/** Whether a call reads or writes records. */
type Access = 'read' | 'write';

/** Maximum number of records that a key can read and write per day (UTC), unless config.yaml sets others. 0 means unlimited. */
const defaultLimits: Readonly<Record<Access, number>> = { read: 50_000, write: 2_000 };

/** Returns the limits in the `mcp` setting. */
const limitsIn = (mcp: ConnectorSettings): Readonly<Record<Access, number>> => ({
  ...defaultLimits,
  ...(typeof mcp === 'object' && mcp.limits),
});

const dayMs = 86_400_000;

/** Number of attempts to store a call, and the pause after the first of them, in milliseconds. */
const [attempts, pauseMs] = [4, 100];

interface CallServices {
  readonly database: Database;
  readonly settings: { readonly current: { readonly mcp: ConnectorSettings } };
}

/** A call within the limits of its key. */
interface AdmittedCall {
  /** Records the call. @param result the tool's result, or undefined if it is unknown whether the tool wrote the record */
  readonly record: (result: ToolResult | undefined) => Promise<void>;
  /** Stops counting the call as one in progress. */
  readonly release: () => void;
}

/** Admits a call. @param run ID of the run that the call names, without its signature @throws HttpError 429 if the key has reached a limit */
export type AdmitCall = (
  caller: Caller,
  tool: Tool,
  args: Arguments,
  run: string | undefined,
) => Promise<AdmittedCall>;

/** Returns whether a call reads or writes records, or undefined if it does neither. A dry run only reads. */
function accessOf({ writes, reads }: Tool, args: Arguments): Access | undefined {
  if (writes) return args.isTrue('dry_run') ? 'read' : 'write';
  return reads === undefined ? undefined : 'read';
}

/** Returns the number of records that a write, its dry run or its proposals contain. */
const recordsIn = ({ written, records, proposals }: ToolResult): number => {
  const list = written ?? records ?? proposals;
  return Array.isArray(list) ? list.length : 1;
};

/** Returns a function that limits and records the calls of agents. */
export function admitCalls(app: FastifyInstance, { database, settings }: CallServices): AdmitCall {
  const tables = tablesOf(database);
  /** Number of calls in progress, by access and key. */
  const inProgress = new Map<string, number>();
  const add = (name: string, count: number) => {
    const sum = (inProgress.get(name) ?? 0) + count;
    if (sum === 0) inProgress.delete(name);
    else inProgress.set(name, sum);
  };

  return async (caller, tool, args, run) => {
    const { principal, requestId } = caller;
    const access = accessOf(tool, args);
    // A read-only instance only reads, and cannot store calls.
    if (access === undefined || app.isReadOnly?.() === true)
      return { record: async () => {}, release: () => {} };
    const name = `${access} ${principal.organization} ${principal.actor}`;
    // Counted before the stored calls are, so that each call is counted at least once.
    const others = inProgress.get(name) ?? 0;
    add(name, 1);
    const release = () => add(name, -1);
    try {
      const limit = limitsIn(settings.current.mcp)[access];
      if (limit > 0) await assertWithin(tables, principal, { access, limit, others });
    } catch (cause) {
      release();
      throw cause;
    }
    const record = async (result: ToolResult | undefined): Promise<void> => {
      const count = result === undefined ? 0 : (tool.reads?.(result) ?? recordsIn(result));
      // A repeated write with the same idempotency key returns the stored result.
      const isWrite = access === 'write' && result?.replayed !== true;
      await store(app, tables, {
        organization_id: principal.organization,
        key_id: String(principal.actor),
        tool: tool.name,
        resource: args.text('resource') ?? '',
        run: run ?? null,
        request_id: requestId,
        records_read: isWrite ? 0 : count,
        records_written: isWrite ? count : 0,
      });
    };
    return { record, release };
  };
}

/** Checks that a key has not reached a limit today. @param limit.others the number of its other calls in progress @throws HttpError 429 otherwise */
async function assertWithin(
  tables: Tables,
  { organization, actor }: Principal,
  { access, limit, others }: { readonly access: Access; readonly limit: number; readonly others: number },
): Promise<void> {
  const start = Math.floor(Date.now() / dayMs) * dayMs;
  const column = access === 'read' ? 'records_read' : 'records_written';
  const { total } = await tables
    .selectFrom('crm_agent_calls')
    .select(sql<string>`coalesce(sum(${sql.ref(column)}), 0)::text`.as('total'))
    .where('organization_id', '=', organization)
    .where('key_id', '=', actor)
    .where('at', '>=', new Date(start))
    .executeTakeFirstOrThrow();
  if (Number(total) + others >= limit) throw errors.agentLimitReached(access, limit, new Date(start + dayMs));
}

/** A call, as stored. */
type CallRow = Omit<TableRows['crm_agent_calls'], 'id' | 'at'>;

/** Stores a call. The call itself has succeeded, so failures are logged after several attempts. */
async function store(app: FastifyInstance, tables: Tables, row: CallRow, attempt = 1): Promise<void> {
  try {
    await tables.insertInto('crm_agent_calls').values(row).execute();
  } catch (cause) {
    const code = sqlState(cause);
    // The key has been deleted, and its calls with it.
    if (code === foreignKeyViolation) return;
    if (attempt === attempts) {
      app.log.error({ ...failureDetails(cause), call: row }, 'could not store a call of an agent');
      return;
    }
    await pause(pauseMs * 2 ** attempt);
    await store(app, tables, row, attempt + 1);
  }
}
