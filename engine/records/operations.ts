import { create } from './create.ts';
import { createBatch } from './create-batch.ts';
import { history } from './history.ts';
import { list } from './list.ts';
import type { CompiledOperation, Operation, OperationContext, Plan } from './operation.ts';
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
export const compileOperations = (context: OperationContext): CompiledOperations =>
  Object.fromEntries(
    Object.entries(operations).map(([name, operation]) => [name, operation.compile(context)]),
  ) as unknown as CompiledOperations;

/** What a route needs of an operation, independent of the type of its plan. */
export interface Routed {
  readonly operation: Operation<Plan, Plan | Promise<Plan>>;
  readonly compiled: CompiledOperation<Plan, Plan | Promise<Plan>>;
}

/** The operations of a resource as a list, for work that is the same for each. */
export const routed = (compiled: CompiledOperations): Routed[] =>
  (Object.keys(operations) as OperationName[]).map((name) => ({
    operation: operations[name] as unknown as Routed['operation'],
    compiled: compiled[name] as unknown as Routed['compiled'],
  }));
