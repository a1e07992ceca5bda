import { type Aliases, aliasesOf } from './aliases.ts';
import { create, createBatch } from './create.ts';
import { history } from './history.ts';
import { list } from './list.ts';
import type {
  BodyInput,
  CompiledOperation,
  EveryInput,
  Operation,
  OperationContext,
  OperationInput,
  OperationPlan,
} from './operation.ts';
import { patch, patchBatch } from './patch.ts';
import { read } from './read.ts';
import { remove, removeBatch } from './remove.ts';
import { replace } from './replace.ts';
import type { OperationResult } from './results.ts';

/** All operations on records, in the order of the OpenAPI document. */
export const operations = {
  list,
  create,
  read,
  replace,
  patch,
  remove,
  history,
  createBatch,
  patchBatch,
  removeBatch,
} as const;

type Operations = typeof operations;
type OperationName = keyof Operations;

/** The compiled operations of one resource. */
export type CompiledOperations = {
  readonly [Name in OperationName]: ReturnType<Operations[Name]['compile']>;
};

/** Compiles every operation of a resource. */
export function compileOperations(context: OperationContext): CompiledOperations {
  const aliases = aliasesOf(context.definition);
  const compiled = Object.entries(operations).map(([name, operation]) => {
    const operationOfResource = operation.compile(context) as unknown as RoutedOperation['compiled'];
    return [name, aliases === undefined ? operationOfResource : withAliases(operationOfResource, aliases)];
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
function withAliases(compiled: RoutedOperation['compiled'], aliases: Aliases): RoutedOperation['compiled'] {
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
interface RoutedOperation {
  readonly operation: Operation<OperationPlan, EveryInput, OperationResult, Planned>;
  readonly compiled: CompiledOperation<OperationPlan, EveryInput, OperationResult, Planned>;
}

/** Returns the operations of a resource as a list. */
export const routedOperations = (compiled: CompiledOperations): RoutedOperation[] =>
  (Object.keys(operations) as OperationName[]).map((name) => ({
    operation: operations[name] as unknown as RoutedOperation['operation'],
    compiled: compiled[name] as unknown as RoutedOperation['compiled'],
  }));
