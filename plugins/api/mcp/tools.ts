import type { ResourceView } from '../../../engine/compile/index.ts';
import { errors } from '../../../engine/errors.ts';
import { ExactNumber, parseOwnJson } from '../../../engine/fields/index.ts';
import type { Query } from '../../../engine/query/index.ts';
import {
  type Body,
  changeValues,
  dryRun,
  type Executor,
  namedParameters,
  type RecordValues,
  recordValues,
  runOperation,
} from '../../../engine/records/index.ts';
import { changePreview, titlePreview, writeRecords } from './bulk.ts';
import {
  apiFields,
  compactor,
  defaultFields,
  expandedReferences,
  historyEntry,
  textLengths,
} from './compact-records.ts';
import { maxUnconfirmed } from './confirmations.ts';
import { describeResource, describeResources } from './describe.ts';
import { describeProposals } from './proposals.ts';
import {
  type Arguments,
  customFieldsFor,
  isAllowed,
  maxIds,
  type ParameterSchema,
  permit,
  type Tool,
  type ToolCall,
  type ToolResult,
  unknownNameIn,
} from './tool.ts';

/** Default and maximum number of records per result. */
const [defaultLimit, maxLimit] = [25, 100];

const text = (description?: string): ParameterSchema => ({
  type: 'string',
  ...(description && { description }),
});
const names = (description: string): ParameterSchema => ({
  type: ['array', 'string'],
  items: { type: 'string' },
  description,
});
const resource = text();
const id: ParameterSchema = { type: ['integer', 'string'] };
const ids: ParameterSchema = {
  type: 'array',
  items: { type: ['integer', 'string'] },
  description: `Instead of id: up to ${maxIds} records, all or none. More than ${maxUnconfirmed} require confirm.`,
};
const confirm = text('"confirm" of a dry run with the same arguments, once your user has agreed');
const values: ParameterSchema = { type: 'object', description: 'Values by field name. References are IDs.' };
const where: ParameterSchema = {
  type: 'object',
  description:
    '{"field","op","value"}, or {"all":[…]}, {"any":[…]}, {"not":{…}} of such conditions. describe lists the operators.',
};
const cursor = text('"next" of the previous result');
const dry: ParameterSchema = {
  type: 'boolean',
  description: 'Only check the call and return what would change.',
};
const key = text('Repeating a call with the same key has no further effect.');
const run = text('"run" of describe, so that writes can be undone together');

/** Returns the number of items in a list of a result. */
const countOf =
  (list: string) =>
  (result: ToolResult): number => {
    const items = result[list];
    return Array.isArray(items) ? items.length : 0;
  };
const one = () => 1;

/** Returns a valid condition on a resource's records. */
function exampleCondition({ definition }: ResourceView): Body {
  const [filter] = definition.filters;
  if (filter === undefined) return {};
  const { field, name, operators } = filter;
  const [value] = field.values?.list ?? field.type.examples ?? [];
  return { where: { field: name, op: operators[0], value: value ?? 1 } };
}

/** Returns valid values for a resource's records. */
function exampleValues({ definition }: ResourceView): Body {
  const writable = definition.fields.filter(({ readOnly, type }) => !readOnly && type.refers !== true);
  const required = writable.filter((field) => field.required);
  const shown = required.length > 0 ? required : writable.slice(0, 1);
  return Object.fromEntries(
    shown.map(({ name, values: known, type }) => [name, known?.list[0] ?? type.examples?.[0] ?? '']),
  );
}

const exampleId = ({ name }: ResourceView) => ({ resource: name, id: 1 });

/** Returns the records' IDs and these fields as parameters of a list or a read. */
const projection = (call: ToolCall, view: ResourceView, fields: readonly string[] | undefined): Query => {
  const expand = expandedReferences(call, view, fields).join();
  return {
    ...(fields !== undefined && { fields: apiFields(fields) }),
    ...(expand !== '' && { expand }),
  };
};

/** Returns the input common to all operations on records of a resource. */
const inputOf = async (call: ToolCall, view: ResourceView) => ({
  caller: call.caller,
  strict: true,
  customFields: await customFieldsFor(call, view),
});

/** Reads a record before a write, as the caller sees it. Returns null if the caller cannot read it. */
async function readBefore(
  call: ToolCall,
  view: ResourceView,
  recordId: string,
  executor: Executor,
): Promise<RecordValues | null> {
  if (!isAllowed(call, view, 'read')) return null;
  const input = { caller: call.caller, id: recordId };
  return runOperation(executor, view.operations.read, input).then(recordValues, () => null);
}

/** Returns the result of a dry run: the previous and the new values of the fields that would change. */
function dryResult(
  call: ToolCall,
  view: ResourceView,
  before: RecordValues | null,
  after: RecordValues | null,
): ToolResult {
  return { dry_run: true, changes: compactor(call, textLengths.many).changes(view, before, after) };
}

/** Returns the result of a write: the record's ID, the written fields and the default fields. */
function writtenResult(
  call: ToolCall,
  view: ResourceView,
  record: RecordValues,
  written: readonly string[],
): ToolResult {
  const compact = compactor(call, textLengths.many);
  const fields = [...defaultFields(call, view), ...written];
  return withNote({ record: compact.record(view, record, fields) }, compact.note());
}

const withNote = (result: ToolResult, note: string | undefined): ToolResult =>
  note === undefined ? result : { ...result, note };

/** Checks that a call names either one record or several. @throws HttpError 400 otherwise */
function assertTarget(args: Arguments): void {
  if (args.has('id') === args.has('ids'))
    throw errors.invalidParameter('id', 'or ids is required, but not both');
}

/** Returns the operation that restores records. @throws HttpError 400 if the resource has no trash */
function restoreOf({ name, operations: { restore } }: ResourceView) {
  if (restore === undefined)
    throw errors.invalidItem(`${name} has no trash: deleted records cannot be restored`);
  return restore;
}

/** Returns a limit between 1 and the maximum. @throws HttpError 400 for other numbers */
function limitOf(args: Arguments): number {
  const limit = args.integer('limit') ?? defaultLimit;
  if (limit < 1 || limit > maxLimit)
    throw errors.invalidParameter('limit', `must be between 1 and ${maxLimit}`);
  return limit;
}

/** All tools. Every caller sees the same list, and errors say which grants are missing. */
export const tools: readonly Tool[] = [
  {
    name: 'describe',
    description:
      'Without resource: the resources, what you may do, and a new run. With resource: its fields, rules, filters and actions. Call it first.',
    parameters: {
      resource,
      proposals: { type: 'boolean', description: 'Only the status of your latest proposals.' },
    },
    required: [],
    example: ({ name }) => ({ resource: name }),
    run: async (call, args) => {
      if (args.isTrue('proposals')) return describeProposals(call);
      return args.has('resource') ? describeResource(call, args.view(call)) : describeResources(call);
    },
  },
  {
    name: 'find',
    description: 'Find records by text and conditions. Returns the main fields unless you name others.',
    parameters: {
      resource,
      q: text('Text to search for'),
      where,
      sort: text('Field names separated by commas; "-" for descending'),
      fields: names('Fields to return'),
      limit: { type: 'integer', minimum: 1, maximum: maxLimit, default: defaultLimit },
      cursor,
    },
    required: ['resource'],
    reads: countOf('records'),
    example: (view) => ({ resource: view.name, ...exampleCondition(view), limit: 10 }),
    run: async (call, args) => {
      const view = args.view(call);
      permit(call, view, 'list');
      const fields = args.names('fields') ?? defaultFields(call, view);
      const [q, sort, after, conditions] = [
        args.text('q'),
        args.text('sort'),
        args.text('cursor'),
        args.object('where'),
      ];
      const body = {
        ...projection(call, view, fields),
        ...(q !== undefined && { q }),
        ...(sort !== undefined && { sort }),
        ...(after !== undefined && { cursor: after }),
        ...(conditions !== undefined && { where: conditions }),
      };
      call.reportNames(view, namedParameters(body));
      const page = await runOperation(call.database, view.operations.query, {
        ...(await inputOf(call, view)),
        signing: call.signing,
        pageSize: limitOf(args),
        body,
      });
      const compact = compactor(call, textLengths.many);
      const records = parseOwnJson(`[${String(page.json)}]`) as readonly RecordValues[];
      return withNote(
        {
          records: records.map((record) => compact.record(view, record, fields)),
          ...(page.next !== undefined && { next: page.next }),
        },
        compact.note(),
      );
    },
  },
  {
    name: 'get',
    description: 'Get one record. Empty fields are omitted; name fields to get complete long texts.',
    parameters: { resource, id, fields: names('Fields to return') },
    required: ['resource', 'id'],
    reads: one,
    example: exampleId,
    run: async (call, args) => {
      const view = args.view(call);
      permit(call, view, 'read');
      const fields = args.names('fields');
      const query = projection(call, view, fields);
      call.reportNames(view, query);
      const { json } = await runOperation(call.database, view.operations.read, {
        ...(await inputOf(call, view)),
        id: args.id(),
        query,
      });
      const compact = compactor(call, fields === undefined ? textLengths.one : undefined);
      return withNote({ record: compact.record(view, recordValues({ json }), fields) }, compact.note());
    },
  },
  {
    name: 'aggregate',
    description: 'Count records, or sum, average, minimum and maximum of a field, by groups.',
    parameters: {
      resource,
      group_by: names('Fields or periods, for example a date field followed by .month'),
      measure: names('Default: count(). Others: sum(field), avg(field), min(field), max(field)'),
      where,
    },
    required: ['resource'],
    reads: one,
    example: (view) => ({ resource: view.name, measure: ['count()'], ...exampleCondition(view) }),
    run: async (call, args) => {
      const view = args.view(call);
      permit(call, view, 'list');
      const { aggregate } = view.operations;
      if (aggregate === undefined)
        throw errors.invalidItem(`${view.name} has no aggregates. Use find to read its records`);
      const groups = args.names('group_by')?.join();
      const measures = args.names('measure')?.join();
      const conditions = args.object('where');
      const query = {
        ...(groups !== undefined && { group_by: groups }),
        ...(measures !== undefined && { measure: measures }),
      };
      call.reportNames(view, { ...query, ...namedParameters({ where: conditions }) });
      const { json } = await runOperation(call.database, aggregate, {
        ...(await inputOf(call, view)),
        query,
        where: conditions,
      });
      return { groups: parseOwnJson(`[${String(json)}]`) };
    },
  },
  {
    name: 'create',
    description: 'Create a record.',
    parameters: { resource, values, dry_run: dry, idempotency_key: key, run },
    required: ['resource', 'values'],
    writes: true,
    example: (view) => ({ resource: view.name, values: exampleValues(view), dry_run: true }),
    run: async (call, args) => {
      const view = args.view(call);
      permit(call, view, 'create');
      const body = args.object('values') ?? {};
      const { create } = view.operations;
      const input = { ...(await inputOf(call, view)), body };
      call.reportNames(view, {}, body);
      if (args.isTrue('dry_run')) {
        const record = await dryRun(call.database, call.caller, 1, (executor) =>
          runOperation(executor, create, input).then(recordValues),
        );
        return dryResult(call, view, null, record);
      }
      const idempotency = args.idempotency(body);
      const created = await runOperation(call.database, create, { ...input, idempotency });
      const result = writtenResult(call, view, recordValues(created), Object.keys(body));
      return created.isReplayed ? { ...result, replayed: true } : result;
    },
  },
  {
    name: 'update',
    description: 'Change some fields of a record, or the same fields of several. Null empties a field.',
    parameters: { resource, id, ids, values, dry_run: dry, confirm, run },
    required: ['resource', 'values'],
    writes: true,
    example: (view) => ({ ...exampleId(view), values: exampleValues(view), dry_run: true }),
    run: async (call, args) => {
      const view = args.view(call);
      permit(call, view, 'update');
      const body = args.object('values') ?? {};
      const { patch } = view.operations;
      assertTarget(args);
      call.reportNames(view, {}, body);
      const common = { ...(await inputOf(call, view)), body };
      if (args.has('ids'))
        return writeRecords(call, view, args, {
          ...{ tool: 'update', body, preview: changePreview(call, view) },
          write: async (executor, one) =>
            recordValues(await runOperation(executor, patch, { ...common, id: one })),
        });
      const input = { ...common, id: args.id() };
      if (args.isTrue('dry_run')) {
        return dryRun(call.database, call.caller, 0, async (executor) => {
          const before = await readBefore(call, view, args.id(), executor);
          const after = recordValues(await runOperation(executor, patch, input));
          return dryResult(call, view, before, after);
        });
      }
      const record = recordValues(await runOperation(call.database, patch, input));
      return writtenResult(call, view, record, Object.keys(body));
    },
  },
  {
    name: 'delete',
    description: 'Delete a record or several. describe says whether they can be restored.',
    parameters: { resource, id, ids, dry_run: dry, confirm, run },
    required: ['resource'],
    writes: true,
    example: (view) => ({ ...exampleId(view), dry_run: true }),
    run: async (call, args) => {
      const view = args.view(call);
      permit(call, view, 'delete');
      call.reportNames(view);
      assertTarget(args);
      const { remove } = view.operations;
      const common = await inputOf(call, view);
      if (args.has('ids'))
        return writeRecords(call, view, args, {
          ...{ tool: 'delete', body: {}, preview: titlePreview(call, view) },
          write: async (executor, one) => {
            await runOperation(executor, remove, { ...common, id: one });
            return null;
          },
        });
      const input = { ...common, id: args.id() };
      if (args.isTrue('dry_run')) {
        return dryRun(call.database, call.caller, 0, async (executor) => {
          const before = await readBefore(call, view, args.id(), executor);
          await runOperation(executor, remove, input);
          return dryResult(call, view, before, null);
        });
      }
      await runOperation(call.database, remove, input);
      return { deleted: new ExactNumber(args.id()) };
    },
  },
  {
    name: 'restore',
    description: 'Restore a record from the trash.',
    parameters: { resource, id, dry_run: dry, run },
    required: ['resource', 'id'],
    writes: true,
    example: exampleId,
    run: async (call, args) => {
      const view = args.view(call);
      const restore = restoreOf(view);
      permit(call, view, 'restore');
      call.reportNames(view);
      const input = { ...(await inputOf(call, view)), id: args.id() };
      if (args.isTrue('dry_run')) {
        const record = await dryRun(call.database, call.caller, 0, (executor) =>
          runOperation(executor, restore, input).then(recordValues),
        );
        return dryResult(call, view, null, record);
      }
      const record = recordValues(await runOperation(call.database, restore, input));
      return writtenResult(call, view, record, []);
    },
  },
  {
    name: 'history',
    description: 'Changes to a record, newest first: when, by whom, and the previous and new values.',
    parameters: { resource, id, cursor },
    required: ['resource', 'id'],
    reads: countOf('changes'),
    example: exampleId,
    run: async (call, args) => {
      const view = args.view(call);
      permit(call, view, 'read');
      call.reportNames(view);
      const after = args.text('cursor');
      const result = await runOperation(call.database, view.operations.history, {
        caller: call.caller,
        id: args.id(),
        query: after === undefined ? {} : { cursor: after },
        signing: call.signing,
      });
      const compact = compactor(call, textLengths.many);
      return {
        changes: changeValues(result).map((change) => historyEntry(compact, view, change)),
        ...(result.next !== undefined && { next: result.next }),
      };
    },
  },
  {
    name: 'act',
    description: 'Perform an action that describe lists. dry_run checks the input without performing it.',
    parameters: {
      resource,
      id,
      action: text(),
      input: { type: 'object' },
      dry_run: dry,
      idempotency_key: key,
      run,
    },
    required: ['resource', 'action'],
    writes: true,
    example: (view) => ({ ...exampleId(view), action: view.actions[0]?.name ?? 'name', input: {} }),
    run: async (call, args) => {
      const view = args.view(call);
      const name = args.text('action') ?? '';
      const action = view.actions.find((candidate) => candidate.name === name);
      if (action === undefined) {
        if (view.actions.length === 0) throw errors.invalidItem(`${view.name} has no actions`);
        const all = view.actions.map((candidate) => candidate.name);
        throw errors.invalidFields([unknownNameIn('action', name, all)]);
      }
      permit(call, view, action.grant);
      call.reportNames(view);
      if (!action.ofCollection && !args.has('id'))
        throw errors.invalidParameter('id', 'is required, because this is an action of a record');
      const body = args.object('input') ?? {};
      const compiled = view.actionNamed(action.module, action.name);
      const input = {
        ...(await inputOf(call, view)),
        body,
        idempotency: args.idempotency(body),
        ...(!action.ofCollection && { id: args.id() }),
      };
      if (args.isTrue('dry_run')) {
        await compiled.check(call.database, input);
        return {
          dry_run: true,
          valid: true,
          note: 'The action was not performed, so its changes are unknown.',
        };
      }
      const { json, isReplayed } = await compiled.run(call.database, input);
      const result = parseOwnJson(json);
      return { [action.job ? 'job' : 'result']: result, ...(isReplayed && { replayed: true }) };
    },
  },
];
