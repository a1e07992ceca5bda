import { type Aliases, aliasesOf } from './aliases.ts';
import { create } from './create.ts';
import { createBatch } from './create-batch.ts';
import { history } from './history.ts';
import { list } from './list.ts';
import type {
  CompiledOperation,
  Operation,
  OperationContext,
  OperationPlan,
  OperationRequest,
} from './operation.ts';
import { patch } from './patch.ts';
import { patchBatch } from './patch-batch.ts';
import { read } from './read.ts';
import { remove } from './remove.ts';
import { removeBatch } from './remove-batch.ts';
import { replace } from './replace.ts';

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
export type OperationName = keyof Operations;

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

/** Returns a function that replaces former field names in a request with current ones. */
export const currentNames =
  (aliases: Aliases) =>
  (request: OperationRequest): OperationRequest => ({
    ...request,
    query: aliases.query(request.query),
    body: (...limits) => aliases.body(request.body(...limits)),
  });

/** Makes an operation accept former field names. */
function withAliases(compiled: RoutedOperation['compiled'], aliases: Aliases): RoutedOperation['compiled'] {
  const translate = currentNames(aliases);
  const exports = compiled.export;
  return {
    ...compiled,
    plan: (request) => compiled.plan(translate(request)),
    ...(exports && { export: { ...exports, plan: (request) => exports.plan(translate(request)) } }),
  };
}

/** An operation as used by routes, independent of its plan type. */
export interface RoutedOperation {
  readonly operation: Operation<OperationPlan, OperationPlan | Promise<OperationPlan>>;
  readonly compiled: CompiledOperation<OperationPlan, OperationPlan | Promise<OperationPlan>>;
}

/** Returns the operations of a resource as a list. */
export const routedOperations = (compiled: CompiledOperations): RoutedOperation[] =>
  (Object.keys(operations) as OperationName[]).map((name) => ({
    operation: operations[name] as unknown as RoutedOperation['operation'],
    compiled: compiled[name] as unknown as RoutedOperation['compiled'],
  }));
