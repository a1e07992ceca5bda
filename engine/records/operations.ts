import type { ResourceDefinition } from '../definition/index.ts';
import { aggregate } from './aggregate.ts';
import { type Aliases, aliasesOf } from './aliases.ts';
import { batchLimits } from './batch.ts';
import { type Body, writableLists } from './body.ts';
import { bulkPatch, bulkRemove } from './bulk.ts';
import { type NestingOperation, withChildren } from './children.ts';
import { create, createBatch } from './create.ts';
import { history } from './history.ts';
import { isHooked, withHooks } from './hooks.ts';
import { list } from './list.ts';
import { merge } from './merge.ts';
import type {
  BodyInput,
  BodyRequirements,
  CompiledOperation,
  EveryInput,
  Operation,
  OperationContext,
  OperationInput,
  OperationPlan,
} from './operation.ts';
import { patch, patchBatch } from './patch.ts';
import { query } from './query.ts';
import { read } from './read.ts';
import { remove, removeBatch } from './remove.ts';
import { replace } from './replace.ts';
import { restore } from './restore.ts';
import type { OperationResult } from './results.ts';
import { unmerge } from './unmerge.ts';
import { violations } from './violations.ts';

/** All operations on records, in the order of the OpenAPI document. */
export const operations = {
  list,
  query,
  aggregate,
  create,
  read,
  replace,
  patch,
  remove,
  restore,
  merge,
  unmerge,
  history,
  createBatch,
  patchBatch,
  removeBatch,
  bulkPatch,
  bulkRemove,
} as const;

type Operations = typeof operations;
type OperationName = keyof Operations;

/** The compiled operations of one resource. */
export type CompiledOperations = {
  readonly [Name in Exclude<OperationName, 'aggregate' | 'restore'>]: ReturnType<Operations[Name]['compile']>;
} & {
  /** Absent if the resource has no aggregates. */
  readonly aggregate?: ReturnType<Operations['aggregate']['compile']>;
  /** Absent if the resource has no trash. */
  readonly restore?: ReturnType<Operations['restore']['compile']>;
};

/** Operations whose body can contain children. */
const nestingOperations: readonly string[] = ['create', 'replace', 'patch'] satisfies NestingOperation[];
const canContainChildren = (name: string): name is NestingOperation => nestingOperations.includes(name);

/** Compiles every operation of a resource. */
export function compileOperations(context: OperationContext): CompiledOperations {
  const aliases = aliasesOf(context.definition);
  const violation = violations(context);
  const compiled = operationsOf(context.definition).map(({ name, operation }) => {
    const compile = (context: OperationContext): CompiledRoute => {
      const ownOperation = { violation, ...(operation.compile(context) as CompiledRoute) };
      return canContainChildren(name) ? withChildren(context, name, ownOperation) : ownOperation;
    };
    const operationOfResource = isHooked(name) ? withHooks(context, name, compile) : compile(context);
    if (aliases === undefined) return [name, operationOfResource];
    const { bodyNames } = operation;
    const body = bodyNames === undefined ? aliases.body : (own: Body) => bodyNames.current(own, aliases);
    return [name, withAliases(operationOfResource, { ...aliases, body })];
  });
  return Object.fromEntries(compiled) as unknown as CompiledOperations;
}

/**
 * Returns a function that replaces former field names in an input with current ones. The body is translated
 * when it is read, because parsing it can fail.
 */
export const currentNames =
  ({ query, body }: Aliases) =>
  <Input extends OperationInput>(input: Input): Input =>
    Object.create(input, {
      query: { value: query(input.query ?? {}) },
      body: { get: () => body((input as Input & BodyInput).body) },
    }) as Input;

/** Wraps an operation so that it accepts former field names. */
function withAliases(compiled: CompiledRoute, aliases: Aliases): CompiledRoute {
  const translate = currentNames(aliases);
  const exports = compiled.export;
  return {
    ...compiled,
    plan: (input) => compiled.plan(translate(input)),
    ...(exports && { export: { ...exports, plan: (input) => exports.plan(translate(input)) } }),
  };
}

type Planned = OperationPlan | Promise<OperationPlan>;

/** An operation in the form that routes use, which does not depend on the plan type. */
export interface RoutedOperation {
  readonly name: OperationName;
  readonly operation: Operation<OperationPlan, EveryInput, OperationResult, Planned>;
}

/** Returns a resource's operations. */
export const operationsOf = (definition: ResourceDefinition): readonly RoutedOperation[] =>
  routedOperations.filter(({ operation }) => operation.appliesTo?.(definition) !== false);

/** A compiled operation in the form that routes use. */
type CompiledRoute = CompiledOperation<OperationPlan, EveryInput, OperationResult, Planned>;

/** All operations as a list. */
export const routedOperations: readonly RoutedOperation[] = (Object.keys(operations) as OperationName[]).map(
  (name) => ({ name, operation: operations[name] as unknown as RoutedOperation['operation'] }),
);

/** Returns the requirements for an operation's body, which can be as large as a batch if it can contain children. */
export const bodyRequirements = (
  { name, operation }: RoutedOperation,
  definition: ResourceDefinition,
): BodyRequirements | undefined =>
  canContainChildren(name) && writableLists(definition).length > 0
    ? { ...operation.body, ...batchLimits }
    : operation.body;

/** Returns one of a resource's compiled operations. */
export const routedOperation = (compiled: CompiledOperations, name: OperationName): CompiledRoute =>
  compiled[name] as unknown as CompiledRoute;
