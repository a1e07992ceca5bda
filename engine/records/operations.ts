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

/** Every operation on records by its name, in the order in which they are described. */
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

/** The operations of one resource, ready to run. */
export type CompiledOperations = {
  readonly [Name in OperationName]: ReturnType<Operations[Name]['compile']>;
};

/** Compiles every operation of a resource. */
export function compileOperations(context: OperationContext): CompiledOperations {
  const aliases = aliasesOf(context.definition);
  const compiled = Object.entries(operations).map(([name, operation]) => {
    const made = operation.compile(context) as unknown as RoutedOperation['compiled'];
    return [name, aliases === undefined ? made : withAliases(made, aliases)];
  });
  return Object.fromEntries(compiled) as unknown as CompiledOperations;
}

/** A request with the current names of fields in place of former ones. */
export const currentNames =
  (aliases: Aliases) =>
  (request: OperationRequest): OperationRequest => ({
    ...request,
    query: aliases.query(request.query),
    body: (...limits) => aliases.body(request.body(...limits)),
  });

/** The same operation for requests that may have former names. */
function withAliases(compiled: RoutedOperation['compiled'], aliases: Aliases): RoutedOperation['compiled'] {
  const renamed = currentNames(aliases);
  const exports = compiled.export;
  return {
    ...compiled,
    plan: (request) => compiled.plan(renamed(request)),
    ...(exports && { export: { ...exports, plan: (request) => exports.plan(renamed(request)) } }),
  };
}

/** What a route needs of an operation, independent of the type of its plan. */
export interface RoutedOperation {
  readonly operation: Operation<OperationPlan, OperationPlan | Promise<OperationPlan>>;
  readonly compiled: CompiledOperation<OperationPlan, OperationPlan | Promise<OperationPlan>>;
}

/** The operations of a resource as a list, for work that is the same for each. */
export const routedOperations = (compiled: CompiledOperations): RoutedOperation[] =>
  (Object.keys(operations) as OperationName[]).map((name) => ({
    operation: operations[name] as unknown as RoutedOperation['operation'],
    compiled: compiled[name] as unknown as RoutedOperation['compiled'],
  }));
