import type { Database } from '../database/index.ts';
import { aliasesOf } from './aliases.ts';
import { runOperation } from './execute.ts';
import { type ChangeInput, compileChange, history } from './history.ts';
import { list } from './list.ts';
import type {
  CompiledOperation,
  HistoryInput,
  ListInput,
  OperationContext,
  OperationInput,
  OperationPlan,
  RecordInput,
} from './operation.ts';
import { currentNames } from './operations.ts';
import { projection } from './projection.ts';
import { read } from './read.ts';
import type { HistoryResult, OperationResult, PageResult, RecordResult } from './results.ts';

/** Runs an operation. @throws HttpError in the same cases as the corresponding API operation */
type Run<Input, Result> = (database: Database, input: Input) => Promise<Result>;

/** Operations that truncate long text values, for display. */
export interface Excerpts {
  readonly list: Run<ListInput, PageResult>;
  readonly read: Run<RecordInput, RecordResult>;
  readonly history: Run<HistoryInput, HistoryResult>;
  /** Returns one change without truncation. */
  readonly change: Run<ChangeInput, HistoryResult>;
}

/** Maximum lengths of text values, in characters: `many` for lists and histories, `one` for single records. */
interface ExcerptLengths {
  readonly many: number;
  readonly one: number;
}

/**
 * Compiles a resource's read operations for which the database truncates text values, so that loading a page does not
 * cost more than displaying it. Entity tags still identify the complete records.
 */
export function compileExcerpts(context: OperationContext, lengths: ExcerptLengths): Excerpts {
  const [many, one] = [withExcerpts(context, lengths.many), withExcerpts(context, lengths.one)];
  const aliases = aliasesOf(context.definition);
  const translate = aliases === undefined ? <Input>(input: Input) => input : currentNames(aliases);
  const runner =
    <P extends OperationPlan, Input extends OperationInput, Result extends OperationResult>(
      compiled: CompiledOperation<P, Input, Result>,
    ): Run<Input, Result> =>
    (database, input) =>
      runOperation(database, compiled, translate(input));
  return {
    list: runner(list.compile(many)),
    read: runner(read.compile(one)),
    history: runner(history.compile(many)),
    change: runner(compileChange(context)),
  };
}

/** Returns a context whose statements truncate text values to this length. */
function withExcerpts(context: OperationContext, excerpt: number): OperationContext {
  const resources = new Map(
    [...context.resources].map(([name, resource]) => {
      const { mark } = resource.projection;
      return [
        name,
        { ...resource, projection: { ...projection(resource, context.resources, excerpt), mark } },
      ];
    }),
  );
  const { projection: own = context.projection } = resources.get(context.definition.name) ?? {};
  return { ...context, projection: own, resources, excerpt };
}
