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

/** Runs an operation. @throws HttpError like the operation of the API */
type Run = (database: Database, request: OperationRequest) => Promise<OperationResponse>;

/** Operations that return the start of long texts, for display. */
export interface Excerpts {
  readonly list: Run;
  readonly read: Run;
  readonly history: Run;
  /** Returns a change with its complete texts, by its position in the parameter `change`. */
  readonly change: Run;
}

/**
 * Compiles read operations whose texts are truncated by the database, so that a page costs no more than it displays.
 * Entity tags identify the complete records.
 * @param contexts of all resources
 * @param lengths characters of a text to select, in lists and histories, and in single records
 * @returns by resource
 */
export function compileExcerpts(
  contexts: readonly OperationContext[],
  lengths: { readonly many: number; readonly one: number },
): ReadonlyMap<string, Excerpts> {
  const [many, one] = [excerpting(contexts, lengths.many), excerpting(contexts, lengths.one)];
  return new Map(
    contexts.map((context) => {
      const aliases = aliasesOf(context.definition);
      const current = aliases === undefined ? (request: OperationRequest) => request : currentNames(aliases);
      const running =
        <P extends OperationPlan>(compiled: CompiledOperation<P>): Run =>
        async (database, request) => {
          const plan = compiled.plan(current(request));
          return compiled.respond(plan, await execute(database, compiled, plan));
        };
      return [
        context.definition.name,
        {
          list: running(list.compile(many(context))),
          read: running(read.compile(one(context))),
          history: running(history.compile(many(context))),
          change: running(compileChange(context)),
        },
      ];
    }),
  );
}

/** Returns the contexts that truncate texts after this many characters. */
function excerpting(contexts: readonly OperationContext[], excerpt: number) {
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
