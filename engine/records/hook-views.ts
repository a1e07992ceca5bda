import { runOperation } from './execute.ts';
import type { HookView, OperationContext } from './operation.ts';
import type { CompiledOperations } from './operations.ts';

/** Returns a resource as hooks access it. @param operationsOf returns its operations, which are compiled on first use */
export const hookView = (
  { definition, stored }: OperationContext,
  operationsOf: () => CompiledOperations,
): HookView => ({
  definition,
  stored,
  read: (executor, input) => runOperation(executor, operationsOf().read, input),
  query: (executor, input) => runOperation(executor, operationsOf().query, input),
  create: (executor, input) => runOperation(executor, operationsOf().create, input),
  patch: (executor, input) => runOperation(executor, operationsOf().patch, input),
  remove: (executor, input) => runOperation(executor, operationsOf().remove, input),
});
