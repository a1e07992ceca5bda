import type { Database } from '../database/index.ts';
import { aliasesOf } from './aliases.ts';
import { execute } from './execute.ts';
import { compileChange, history } from './history.ts';
import { list } from './list.ts';
import type {
  CompiledOperation,
  OperationContext,
  OperationPlan,
  OperationRequest,
  OperationResponse,
} from './operation.ts';
import { currentNames } from './operations.ts';
import { type Projection, projection } from './projection.ts';
import { read } from './read.ts';

/** Runs an operation. @throws HttpError in the same cases as the API's operation */
type Run = (database: Database, request: OperationRequest) => Promise<OperationResponse>;

/** Operations that return only the start of long texts, for display. */
export interface Excerpts {
  readonly list: Run;
  readonly read: Run;
  readonly history: Run;
  /** Returns one change with complete texts. The query parameter `change` contains the change's position. */
  readonly change: Run;
}

/**
 * Compiles read operations for which the database truncates texts, so that loading a page does not cost more
 * than displaying it. Entity tags still identify the complete records.
 * @param contexts the contexts of all resources
 * @param lengths maximum number of characters per text, in lists and histories (`many`) and in single records
 * (`one`)
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
      const translate =
        aliases === undefined ? (request: OperationRequest) => request : currentNames(aliases);
      const runner =
        <P extends OperationPlan>(compiled: CompiledOperation<P>): Run =>
        async (database, request) => {
          const plan = compiled.plan(translate(request));
          return compiled.respond(plan, await execute(database, compiled, plan));
        };
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

/** Returns a function that configures a context's statements to truncate texts to this many characters. */
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
