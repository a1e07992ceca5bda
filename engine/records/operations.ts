import { create } from './create.ts';
import { list } from './list.ts';
import type { CompiledOperation, Operation, OperationContext, Plan } from './operation.ts';
import { patch } from './patch.ts';
import { read } from './read.ts';
import { remove } from './remove.ts';
import { replace } from './replace.ts';

/** Every operation on records by its name, in the order in which they are described. */
export const operations = { list, create, read, replace, patch, remove } as const;

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
  readonly operation: Operation;
  readonly compiled: CompiledOperation;
}

/** The operations of a resource as a list, for work that is the same for each. */
export const routed = (compiled: CompiledOperations): Routed[] =>
  (Object.keys(operations) as OperationName[]).map((name) => ({
    operation: operations[name] as unknown as Operation,
    compiled: compiled[name] as unknown as CompiledOperation<Plan>,
  }));
