// The statements for records outside the operations of a resource, and the files that prepare statements.
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { DummyDriver, Kysely, PostgresAdapter, PostgresIntrospector, PostgresQueryCompiler } from 'kysely';
import type { Resource } from '../../engine/compile/compile.ts';
import { projectFolder } from '../../engine/config/variables.ts';
import type { Database } from '../../engine/database/database.ts';
import { compileExcerpts } from '../../engine/records/excerpts.ts';
import { compileLockedRecords } from '../../engine/records/hook-rows.ts';
import {
  type Caller,
  compileChange,
  compileChangeStates,
  compileFindLock,
  compileLock,
  compilePurge,
  compileTransitionScopes,
  matching,
  matchingStates,
  runOperation,
} from '../../engine/records/index.ts';
import type { Statement } from '../../engine/sql/statement.ts';
import { actionsInScope, isInScope } from '../../plugins/access/profiles/permissions.ts';
import { boardTotals } from '../../plugins/admin-ui/records/board-totals.ts';
import { feedReader } from '../../plugins/change-log/feed.ts';
import { visibleTo } from '../../webhooks/subscriptions/deliveries.ts';

const helper = 'a function that other files call';
const operation = "one of the resource's operations or lists of children";
const outside = 'one of otherStatements';
const ofModules = 'for commands, partners and background jobs, whose grants limit nothing';
const ofPlatform = 'for tables that do not contain records';

/**
 * The files that prepare statements, select visible changes, or access a table with a variable name: the number of places,
 * and what their statements are. The statements of a new place must contain the caller's scopes: add them to
 * {@link otherStatements}, unless they are on behalf of callers whose grants limit nothing.
 */
export const statementFiles: Readonly<Record<string, readonly [places: number, statements: string]>> = {
  'engine/modules/retention.ts': [2, ofPlatform],
  'engine/records/actions.ts': [1, 'records that a caller performed an action'],
  'engine/records/aggregate.ts': [1, operation],
  'engine/records/batch.ts': [1, helper],
  'engine/records/bulk.ts': [2, operation],
  'engine/records/child-lists.ts': [4, operation],
  'engine/records/children.ts': [1, operation],
  'engine/records/create.ts': [3, operation],
  'engine/records/delete-referrers.ts': [2, `${operation}; findDependents is for erasures, ${ofModules}`],
  'engine/records/export.ts': [2, operation],
  'engine/records/history.ts': [4, `${operation}; compileChange and compileChangeStates are ${outside}`],
  'engine/records/hook-rows.ts': [2, outside],
  'engine/records/hooks.ts': [
    2,
    `the changes of a transaction, for its hooks; stored responses, ${ofPlatform}`,
  ],
  'engine/records/idempotency.ts': [2, ofPlatform],
  'engine/records/jobs.ts': [2, ofPlatform],
  'engine/records/list.ts': [3, operation],
  'engine/records/row-lock.ts': [1, outside],
  'engine/records/find-lock.ts': [3, `${operation}; compileFindLock is ${outside}`],
  'engine/records/matching-states.ts': [1, outside],
  'engine/records/merge.ts': [7, operation],
  'engine/records/patch.ts': [1, operation],
  'engine/records/read.ts': [2, operation],
  'engine/records/record-resource.ts': [
    4,
    `matching is ${outside}; records and insertRecord are ${ofModules}`,
  ],
  'engine/records/rejections.ts': [1, operation],
  'engine/records/remove.ts': [3, `${operation}; compilePurge is ${outside}`],
  'engine/records/replay.ts': [2, operation],
  'engine/records/restore.ts': [2, operation],
  'engine/records/statements.ts': [4, operation],
  'engine/records/transition-scopes.ts': [1, outside],
  'engine/records/unmerge.ts': [9, operation],
  'engine/sql/statement.ts': [1, helper],
  'plugins/access/api-keys/authentication.ts': [2, ofPlatform],
  'plugins/access/profiles/permissions.ts': [2, outside],
  'plugins/access/rate-limiting/tables.ts': [1, ofPlatform],
  'plugins/access/secrets/sealing.ts': [2, ofPlatform],
  'plugins/admin-ui/records/board-totals.ts': [1, outside],
  'plugins/admin-ui/records/home-parts.ts': [
    1,
    'tests whether an organization has records, for administrators',
  ],
  'plugins/change-log/feed.ts': [3, `${outside}; endStatement is ${ofPlatform}`],
  'plugins/change-log/lag.ts': [1, ofPlatform],
  'plugins/change-log/stream.ts': [1, 'finds new changes without their content'],
  'plugins/jobs/jobs.ts': [1, 'finds a record in the scopes of an action; tests of jobs have such callers'],
  'plugins/tenants/custom-fields/retention.ts': [1, ofModules],
  'plugins/tenants/erasure/erase-person.ts': [5, ofModules],
  'plugins/tenants/erasure/scan.ts': [1, ofModules],
  'plugins/tenants/quotas/record-quotas.ts': [1, 'counts all records, as documented'],
  'plugins/tenants/trash/purge.ts': [2, ofModules],
  'webhooks/endpoint/check.ts': [1, ofModules],
  'webhooks/queue/check.ts': [2, ofPlatform],
  'webhooks/queue/claim.ts': [3, ofPlatform],
  'webhooks/queue/items.ts': [5, ofPlatform],
  'webhooks/queue/metrics.ts': [3, ofPlatform],
  'webhooks/sender/sender.ts': [1, 'prepares a message'],
  'webhooks/subscriptions/deliveries.ts': [1, outside],
  'webhooks/subscriptions/fan-out.ts': [2, `visibleChanges, as in the feed, which is ${outside}`],
};

/** Returns the number of places in each file; see {@link statementFiles}. */
export function readStatementFiles(): Readonly<Record<string, number>> {
  const place =
    /(?<!function )\b(?:prepare(?:Batch|ById)?(?:<(?:[^<>()]|<[^<>]*>)*>)?\(|visibleChanges\(|sql\.table\()/g;
  return Object.fromEntries(
    globSync('{engine,plugins,webhooks,app}/**/*.ts', { cwd: projectFolder }).flatMap((file) => {
      const places = [...readFileSync(join(projectFolder, file), 'utf8').matchAll(place)].length;
      return places === 0 ? [] : [[file, places]];
    }),
  );
}

/** Returns the statements that a function runs. The database contains nothing, so the function can fail. */
async function statementsOf(work: (database: Database) => Promise<unknown>): Promise<readonly Statement[]> {
  const statements: Statement[] = [];
  const run = async (statement: Statement) => {
    statements.push(statement);
    return [];
  };
  await work({ run } as Pick<Database, 'run'> as Database).catch(() => undefined);
  return statements;
}

const queries = new Kysely({
  dialect: {
    createAdapter: () => new PostgresAdapter(),
    createDriver: () => new DummyDriver(),
    createIntrospector: (database) => new PostgresIntrospector(database),
    createQueryCompiler: () => new PostgresQueryCompiler(),
  },
});

/** A statement outside a resource's operations. */
type OtherStatement = Pick<Statement, 'name' | 'text' | 'many'>;

/**
 * Returns the statements outside a resource's operations that are executed on behalf of a caller, by the function that
 * prepares them.
 */
export async function otherStatements(
  resource: Resource,
  resources: readonly Resource[],
  caller: Caller,
): Promise<ReadonlyMap<string, readonly OtherStatement[]>> {
  const { principal } = caller;
  const view = resource.viewFor(principal.grants);
  const { context, definition } = view;
  const { organization } = principal;
  const id = '1';
  const input = { caller, id };
  const filters = matching(context);
  const change = compileChange(context);
  const states = compileChangeStates(context);
  const moves = matchingStates(context);
  const locked = compileLockedRecords(context, context);
  const excerpts = compileExcerpts(context, { many: 100, one: 1000 });
  const changeInput = { ...input, position: '1-1' };
  const plan = { organization, caller };
  const query = filters.parse({}, []);
  const feedView = {
    key: context.view,
    resources: resources.map(({ viewFor }) => viewFor(principal.grants).context),
  };
  const boards = definition.fields.filter(({ values }) => values !== undefined);
  return new Map<string, readonly OtherStatement[]>([
    ['compileChange', [change.statement(change.plan(changeInput)) ?? []].flat()],
    ['compileChangeStates', [states.statement(states.plan(changeInput))]],
    [
      'matching',
      [
        filters.statement({ ...plan, id, parsedQuery: query }),
        filters.findStatement({ ...plan, limit: 1, parsedQuery: query }),
      ],
    ],
    ['matchingStates', [moves.statement(moves.plan(changeInput, filters.parse({ name: 'x' }, [])))]],
    ['compileFindLock', await statementsOf((database) => compileFindLock(context)(database, input))],
    ['compileLock', [compileLock(context, 'update')(input)]],
    [
      'compileLockedRecords',
      (definition.trash === undefined
        ? (['read', 'update', 'delete'] as const)
        : (['read', 'update', 'delete', 'restore'] as const)
      ).map((action) => locked.byIds(action, { ...plan, ids: [id] })),
    ],
    ['compilePurge', await statementsOf((database) => runOperation(database, compilePurge(context), input))],
    [
      'compileTransitionScopes',
      await statementsOf((database) => compileTransitionScopes(context)(database, input)),
    ],
    ['excerpts.list', await statementsOf((database) => excerpts.list(database, { caller }))],
    ['excerpts.read', await statementsOf((database) => excerpts.read(database, input))],
    ['excerpts.history', await statementsOf((database) => excerpts.history(database, input))],
    ['excerpts.change', await statementsOf((database) => excerpts.change(database, changeInput))],
    ['actionsInScope', await statementsOf((database) => actionsInScope(database, resource, principal, id))],
    [
      'isInScope',
      (
        await Promise.all(
          (['read', 'restore'] as const).map((action) =>
            statementsOf((database) => isInScope(database, resource, principal, { action, id })),
          ),
        )
      ).flat(),
    ],
    [
      'boardTotals',
      (
        await Promise.all(
          boards.map((field) => statementsOf((database) => boardTotals(database, view, principal, field))),
        )
      ).flat(),
    ],
    [
      'feedReader',
      await statementsOf((database) =>
        feedReader(database)({ caller, view: feedView, after: { transaction: '1', id: '1' }, maxBytes: 1 }),
      ),
    ],
    ['visibleTo', [{ name: 'visible_to', text: visibleTo(principal, resources).compile(queries).sql }]],
  ]);
}
