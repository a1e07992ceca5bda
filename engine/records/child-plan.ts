import { errors, type FieldIssue, HttpError } from '../errors.ts';
import { ExactNumber, fieldTypes } from '../fields/index.ts';
import { parameterIssue } from '../query/index.ts';
import { allows, groupObject } from './access.ts';
import { type BatchPlan, batchPlan, ItemFailures, idOf, objectOf } from './batch.ts';
import type { Body } from './body.ts';
import { type ChildList, maxChildren } from './child-lists.ts';
import { customFieldsOf, withCustomValues } from './custom-fields.ts';
import type { TransactionExecutor } from './executor.ts';
import type { BatchItem } from './items.ts';
import type { OperationInput, OperationPlan } from './operation.ts';
import { rejectRequest } from './requests.ts';
import { createYield } from './yield.ts';

/** A child to write. */
export interface ChildItem extends BatchItem {
  /** Index in the body's list, starting at 0. */
  readonly index: number;
}

/** The children to write, for one list. */
export interface ChildrenPlan {
  readonly list: ChildList;
  /** Children that are created. */
  readonly created: readonly ChildItem[];
  /** Children that are updated. Each has an ID. */
  readonly updated: readonly ChildItem[];
}

/** Errors of children by their index in the body's list. */
type ChildFailures = ReadonlyMap<number, HttpError>;

/** A list in a body: valid children, or the issues that prevent the request. */
interface ParsedChildren {
  readonly plan: ChildrenPlan;
  readonly issues: readonly FieldIssue[];
}

/**
 * Validates a list of children in a body.
 * @param isNew whether the request creates the record, so that the children's IDs are ignored
 * @throws HttpError 403 if the caller cannot create or update children
 */
export async function parseChildren(
  list: ChildList,
  value: unknown,
  { caller, strict = false, customFields }: Pick<OperationInput, 'caller' | 'strict' | 'customFields'>,
  isNew: boolean,
): Promise<ParsedChildren> {
  const { name, rules, aliases } = list;
  const fields = customFieldsOf({ customFields, caller }, list.child.definition);
  const created: ChildItem[] = [];
  const updated: ChildItem[] = [];
  const plan = { list, created, updated };
  if (!Array.isArray(value) || value.length > maxChildren)
    return { plan, issues: [parameterIssue(name, `must be a list of at most ${maxChildren} records`)] };
  const items: readonly unknown[] = value;
  const pause = createYield();
  const failures = new Map<number, HttpError>();
  const actions = new Set<'create' | 'update'>();
  const indexes = new Map<string, number>();
  for (const [index, item] of items.entries()) {
    await pause();
    try {
      const { id: rawId, ...rest } = objectOf(item);
      const body = aliases?.body(rest) ?? rest;
      const hasId = !isNew && rawId !== undefined && rawId !== null;
      const id = hasId ? idOf(rawId) : undefined;
      actions.add(hasId ? 'update' : 'create');
      const write = hasId ? 'replace' : 'create';
      rejectRequest([
        ...(hasId && id === undefined
          ? [{ field: 'id', message: `id must be ${fieldTypes.int64.expected}` }]
          : []),
        ...(strict
          ? rules.unexpected(isNew && rawId !== undefined ? { ...body, id: rawId } : body, fields)
          : []),
        ...rules.validate(body, fields, write),
      ]);
      const accepted = withCustomValues(rules.accepted(body), fields, write);
      if (id === undefined) created.push({ index, id: null, body: accepted });
      else {
        const first = indexes.get(id);
        indexes.set(id, index);
        if (first === undefined) updated.push({ index, id, body: list.replacement(accepted) });
        else for (const same of [first, index]) failures.set(same, errors.duplicateInBatch(['id']));
      }
    } catch (cause) {
      if (!(cause instanceof HttpError)) throw cause;
      failures.set(index, cause);
    }
  }
  authorizeChildren(list, caller, actions);
  return { plan, issues: issuesOf(name, failures) };
}

/** Checks the grants for creating and updating children. @throws HttpError 403 */
function authorizeChildren(
  { child, reference }: ChildList,
  { principal }: OperationInput['caller'],
  actions: ReadonlySet<'create' | 'update'>,
): void {
  const { definition, stored } = child;
  for (const action of actions)
    if (!allows(principal.grants, stored, action)) throw errors.forbidden(stored.name, action);
  const field = definition.fields.find(({ name }) => name === reference.name);
  if (actions.has('create') && field?.group !== undefined && field.readOnly)
    throw errors.forbidden(groupObject(stored.name, field.group), 'update');
}

/** Returns the location of a child in the body. */
const locationOf = (name: string, index: number): string => `${name}[${index}]`;

/** Returns the issues of children, with their locations. */
const issuesOf = (name: string, failures: ChildFailures): FieldIssue[] =>
  [...failures]
    .sort(([a], [b]) => a - b)
    .flatMap(([index, { message, extra }]) => {
      const location = locationOf(name, index);
      return (
        extra.fields?.map((issue) => ({
          ...issue,
          field: `${location}.${issue.field}`,
          message: `${location}: ${issue.message}`,
        })) ?? [
          { field: location, message: `${location}: ${message}`, ...(extra.hint && { hint: extra.hint }) },
        ]
      );
    });

/**
 * Returns the error for children that cannot be written. It has the status and code of the first child's error, and lists
 * all children that have the same error.
 */
export function childError(name: string, failures: ChildFailures): HttpError {
  const [[, first] = []] = [...failures].sort(([a], [b]) => a - b);
  if (first === undefined) throw new Error('no child failed');
  const same = new Map([...failures].filter(([, { code }]) => code === first.code));
  const { text, extra } = errors.invalidFields(issuesOf(name, same));
  // The messages of the issues contain the hints.
  const { hint: _, ...details } = first.extra;
  return new HttpError(first.status, first.code, text, { ...details, ...extra });
}

/** Returns the error of a statement that writes children, located in the body. @param items the children that it writes */
export function locateError(name: string, items: readonly ChildItem[], cause: unknown): unknown {
  if (!(cause instanceof HttpError && cause.cause instanceof ItemFailures)) return cause;
  const failures = [...cause.cause.failures].flatMap(([number, error]) => {
    const item = items[number - 1];
    return item === undefined ? [] : [[item.index, error] as const];
  });
  return childError(name, new Map(failures));
}

/**
 * Returns the plan of a batch that writes these children, after their hooks.
 * @param executor runs the hooks' statements
 * @param set values that the server sets
 * @throws HttpError 400 if a hook rejects a child
 */
export async function childBatch(
  { name, items: table, values, beforeHooks }: ChildList,
  items: readonly ChildItem[],
  plan: OperationPlan & Pick<OperationInput, 'customFields'>,
  executor: TransactionExecutor,
  set: Body = {},
): Promise<BatchPlan> {
  const bodies = items.map(({ body }) => ({ ...values(body), ...set }));
  const action = items.every(({ id }) => id === null) ? 'create' : 'update';
  const decisions = await beforeHooks(
    executor,
    plan,
    action,
    items.map(({ id }, index) => ({ number: index + 1, id: id ?? undefined, body: bodies[index] })),
    { customFields: plan.customFields },
  );
  const hooked = items.map(({ id }, index) => ({
    id,
    body: decisions.bodies.get(index + 1) ?? bodies[index] ?? {},
    failure: decisions.failures.get(index + 1),
  }));
  return batchPlan(
    { caller: plan.caller },
    { items: hooked, stops: true, match: undefined },
    {
      table,
      location: (number) => locationOf(name, items[number - 1]?.index ?? 0),
      read: (value) => {
        const { failure, ...item } = value as (typeof hooked)[number];
        if (failure !== undefined) throw failure;
        return item;
      },
    },
  );
}

/** Returns an ID as a JSON number. */
export const exactId = (id: string): ExactNumber => new ExactNumber(id);
