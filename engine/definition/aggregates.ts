import { canRollUp, type Field, typeLabel } from '../fields/index.ts';
import { comparedField, type Declarations, unknownFieldMessage } from '../query/index.ts';
import { suggestionOrList, withArticle } from '../yaml/index.ts';
import type { AggregateField, Aggregates, RawResource } from './definition.ts';

/** Names of the parameters of aggregates, in addition to the filters and conditions on measures. */
export const aggregateParameters: readonly string[] = ['group_by', 'measure', 'tz'];

/** The parts of a definition on which its aggregates depend. */
interface Context {
  /** The resource's fields, including former names. */
  readonly fields: ReadonlyMap<string, Field>;
  readonly filters: Declarations['filters'];
  readonly report: (path: readonly (string | number)[], message: string) => void;
}

/** Returns the fields that a resource's aggregates can use, and reports unsuitable ones. */
export function readAggregates(
  { aggregates }: RawResource,
  { fields, filters, report }: Context,
): { readonly aggregates?: Aggregates } {
  if (aggregates === undefined) return {};
  for (const { name } of filters.filter(
    ({ name, parameters }) =>
      aggregateParameters.includes(name) && parameters.some(({ source }) => source !== 'references'),
  ))
    report(
      ['aggregates'],
      `"${name}" is a filter, but also a parameter of aggregates. Remove the filter, or rename the field.`,
    );
  const { group_by: groupNames = [], measures: measureNames = [] } = aggregates;
  const groupBy = groupNames.flatMap((name, index) => {
    const field = comparedField(fields, name);
    const issue = field === undefined ? unknownFieldMessage(fields, name) : findGroupIssue(field);
    if (issue !== undefined) report(['aggregates', 'group_by', index], issue);
    return field === undefined ? [] : [{ name, field }];
  });
  const measures = measureNames.flatMap((name, index) => {
    const field = fields.get(name);
    const issue =
      field === undefined
        ? `unknown field "${name}"${suggestionOrList(name, namesOfMeasurable(fields))}`
        : findMeasureIssue(field);
    if (issue !== undefined) report(['aggregates', 'measures', index], issue);
    return field === undefined ? [] : [{ name, field }];
  });
  return {
    aggregates: {
      groupBy: withFormerNames(groupBy, fields),
      measures: withFormerNames(measures, fields),
    },
  };
}

/** Returns whether aggregates can group records by the values or periods of a type. */
export const isGroupable = ({ groupKey, localTime }: Field['type']): boolean =>
  groupKey !== undefined || localTime !== undefined;

/** Returns whether aggregates can combine values of a type. */
export const isMeasurable = (type: Field['type']): boolean => canRollUp(type) && type.order !== undefined;

const namesOfMeasurable = (fields: Context['fields']): string[] =>
  [...fields].flatMap(([name, { type }]) => (isMeasurable(type) ? [name] : []));

/** Returns the reason that records cannot be grouped by a field, or undefined if they can. */
function findGroupIssue(field: Field): string | undefined {
  if (isGroupable(field.type)) return undefined;
  const hint = field.type.currency === undefined ? '' : `. Use "${field.name}.currency".`;
  return `cannot group by ${typeLabel(field)} fields${hint}`;
}

/** Returns the reason that a field cannot be measured, or undefined if it can. */
const findMeasureIssue = (field: Field): string | undefined =>
  isMeasurable(field.type)
    ? undefined
    : `"${field.name}" is ${withArticle(typeLabel(field))} field. Measures are numbers, amounts, dates and timestamps.`;

/** Adds the former names of the fields. */
const withFormerNames = (
  entries: readonly AggregateField[],
  fields: Context['fields'],
): readonly AggregateField[] => [
  ...entries,
  ...[...fields].flatMap(([name, { aliasOf }]) => {
    const entry = entries.find(({ field }) => field.name === aliasOf?.name);
    return entry === undefined ? [] : [{ name, field: entry.field, isFormer: true as const }];
  }),
];
