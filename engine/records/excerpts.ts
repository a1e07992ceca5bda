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
import { type Projection, projection } from './projection.ts';
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

/**
 * Compiles read operations for which the database truncates text values, so that loading a page does not cost
 * more than displaying it. Entity tags still identify the complete records.
 * @param contexts the contexts of all resources
 * @param lengths maximum length of text values, in characters: `many` for lists and histories, `one` for
 * single records
 * @returns the operations by resource name
 */
export function compileExcerpts(
  contexts: readonly OperationContext[],
  lengths: { readonly many: number; readonly one: number },
): ReadonlyMap<string, Excerpts> {
  const [many, one] = [withExcerpts(contexts, lengths.many), withExcerpts(contexts, lengths.one)];
  return new Map(
    contexts.map((context) => {
      const aliases = aliasesOf(context.definition);
      const translate = aliases === undefined ? <Input>(input: Input) => input : currentNames(aliases);
      const runner =
        <P extends OperationPlan, Input extends OperationInput, Result extends OperationResult>(
          compiled: CompiledOperation<P, Input, Result>,
        ): Run<Input, Result> =>
        (database, input) =>
          runOperation(database, compiled, translate(input));
      return [
        context.definition.name,
        {
          list: runner(list.compile(many(context))),
          read: runner(read.compile(one(context))),
          history: runner(history.compile(many(context))),
          change: runner(compileChange(context)),
        },
      ];
    }),
  );
}

/** Returns a function that configures a context's statements to truncate text values to this length. */
function withExcerpts(contexts: readonly OperationContext[], excerpt: number) {
  const definitions = contexts.map(({ definition }) => definition);
  const projections = new Map(
    contexts.map(({ definition, projection: { mark } }): [string, Projection] => [
      definition.name,
      { ...projection(definition, definitions, excerpt), mark },
    ]),
  );
  return (context: OperationContext): OperationContext => ({
    ...context,
    projection: projections.get(context.definition.name) ?? context.projection,
    projections,
    excerpt,
  });
}
