import { errors } from '../errors.ts';
import { type Field, fieldTypes } from '../fields/index.ts';
import { parameterIssue } from '../query/index.ts';
import { quote, trashedColumn } from '../sql/index.ts';
import { allows, type Principal } from './access.ts';
import type { ListPlan } from './list-scope.ts';
import type { CompiledOperation, ExportReader, ListInput, OperationContext } from './operation.ts';
import { projection } from './projection.ts';
import { rejectRequest } from './requests.ts';
import type { PageResult } from './results.ts';

/** A compiled list. */
type CompiledList<Input extends ListInput> = CompiledOperation<ListPlan, Input, PageResult>;

/** Parameter that selects the records in the trash. */
export const trashedParameter = 'trashed';

/** The time at which a record was moved to the trash. Only lists of trashed records contain it. */
export const trashedAt: Field = {
  name: 'trashed_at',
  location: '',
  typeName: 'timestamp',
  type: fieldTypes.timestamp,
  description: 'When the record was moved to the trash. Only in lists of the trash.',
  readOnly: true,
  nullable: false,
  required: false,
  default: null,
  unique: false,
  sensitive: false,
};

/** Returns the context for the list of the records in the trash, which starts with the latest. */
export function trashContext(context: OperationContext): OperationContext {
  const { definition, stored, resources, excerpt } = context;
  const { sort, fields, selection } = definition;
  const listed = {
    ...definition,
    fields: [...fields, trashedAt],
    selection: [...selection, trashedAt],
    sort: {
      ...sort,
      field: trashedAt,
      direction: 'desc' as const,
      choices: new Map([...sort.choices, [trashedAt.name, trashedAt]]),
    },
  };
  const visible = {
    definition: listed,
    stored: { ...stored, fields: [...stored.fields, trashedAt] },
    trashed: 'only' as const,
  };
  return {
    ...context,
    ...visible,
    source: `(select *, ${quote(trashedColumn)} as ${quote(trashedAt.name)} from ${quote(definition.name)})`,
    projection: projection(visible, resources, excerpt),
  };
}

/** Extends a list so that `?trashed=true` lists the records in the trash instead. */
export function withTrash<Input extends ListInput>(
  { stored, definition }: OperationContext,
  own: CompiledList<Input>,
  trash: CompiledList<Input>,
): CompiledList<Input> {
  const listOf = ({ trashed }: ListPlan): CompiledList<Input> => (trashed === undefined ? own : trash);
  const authorize = ({ grants }: Principal) => {
    if (!allows(grants, stored, 'restore')) throw errors.forbidden(definition.name, 'restore');
  };
  const choose = (input: Input): CompiledList<Input> => {
    const value = input.query?.[trashedParameter] ?? 'false';
    if (value !== 'true' && value !== 'false')
      rejectRequest([parameterIssue(trashedParameter, 'must be true or false')]);
    if (value !== 'true') return own;
    authorize(input.caller.principal);
    return trash;
  };
  const exportOf = (list: CompiledList<Input>): ExportReader<ListPlan, Input> => {
    if (list.export === undefined) throw errors.notFound();
    return list.export;
  };
  return {
    ...own,
    plan: (input) => choose(input).plan(input),
    statement: (plan) => listOf(plan).statement(plan),
    followUp: (plan, rows) => listOf(plan).followUp?.(plan, rows),
    result: (plan, rows) => listOf(plan).result(plan, rows),
    export: {
      plan: (input) => exportOf(choose(input)).plan(input),
      authorizeRelated: (plan, principal) => {
        if (plan.trashed !== undefined) authorize(principal);
        exportOf(listOf(plan)).authorizeRelated(plan, principal);
      },
      begin: (plan) => exportOf(listOf(plan)).begin(plan),
      head: (plan, format) => exportOf(listOf(plan)).head(plan, format),
      statement: (plan, format) => exportOf(listOf(plan)).statement(plan, format),
      batch: (plan, rows) => exportOf(listOf(plan)).batch(plan, rows),
    },
  };
}
