import type { Field, FieldType } from '../fields/index.ts';
import { column } from '../sql/index.ts';
import type { NamedField } from './part.ts';

/** A filter's values, for use in its SQL condition. */
export interface Operand {
  /** Values, as parameters of the field's type or keywords of the operator. */
  readonly values: readonly string[];
  /** Returns the placeholder for the value, or for the list if there are several values. */
  readonly placeholder: () => string;
  /** See {@link VisibleIds}. */
  readonly visibleIds: (ids: () => string) => string | undefined;
}

/** An operator that compares a field with values from the request, as in `?field[operator]=value`. */
interface FilterOperator {
  /** The property that the field's type must define. */
  readonly needs: keyof FieldType & ('equals' | 'bounds' | 'startsWith' | 'contains' | 'includes');
  /** Whether the operator compares with null, and the field must therefore be nullable. */
  readonly nullable?: true;
  /** Whether the parameter can be repeated. */
  readonly repeatable?: true;
  /** The part of a day for which a date stands in a comparison with a timestamp. */
  readonly day?: 'start' | 'end';
  /** Keywords accepted instead of field values. Each keyword has a separate statement. */
  readonly words?: readonly string[];
  /**
   * How an index can serve the operator: `order` finds the records with one value in list order, `find`
   * finds them in no particular order, and `none` requires a scan of the organization's records.
   */
  readonly index: 'order' | 'find' | 'none';
  /** Completes "<field> …" in English, for generated connectors. The admin UI has a text for each operator in its catalogues. */
  readonly label: string;
  /** An operator that makes this one redundant in the admin UI if the filter supports both. */
  readonly coveredBy?: string;
  readonly describe: (field: Field) => string;
  /** Returns the SQL condition. Rows for which it is null do not match. */
  readonly where: (field: Field, operand: Operand) => string;
}

/** Returns the condition that a field has no value, or that it has one. */
function nullity(field: Field, isNull: boolean): string {
  if (field.alternatives === undefined) return `${column(field)} is ${isNull ? 'null' : 'not null'}`;
  const columns = field.alternatives.map((alternative) => column(alternative)).join(', ');
  return `num_nonnulls(${columns}) ${isNull ? '=' : '>'} 0`;
}

/** Returns the condition that the column equals the value or one of several values. */
const among = (field: Field, operand: Operand): string => {
  const { values, placeholder } = operand;
  const visible = field.type.element && operand.visibleIds(() => valuesOf(field, operand));
  if (visible !== undefined) return `${field.type.among?.(column(field), visible)}`;
  const compare = values.length > 1 ? field.type.among : field.type.equals;
  return `${compare?.(column(field), placeholder(), field)}`;
};

/**
 * Returns an SQL expression for an array of the values with which a list is compared, without the IDs to which the caller's
 * references cannot lead.
 */
export const visibleValues = (field: Field, operand: Operand): string =>
  operand.visibleIds(() => valuesOf(field, operand)) ?? valuesOf(field, operand);

/** Returns an SQL expression for an array of the values, with which a list is compared. */
const valuesOf = ({ type: { element } }: Field, { values, placeholder }: Operand): string =>
  values.length > 1 ? `${placeholder()}::${element?.sql}[]` : `array[${placeholder()}::${element?.sql}]`;

/** Returns the condition that a list contains all values. */
function includesAll(field: Field, operand: Operand): string {
  const values = valuesOf(field, operand);
  const visible = operand.visibleIds(() => values);
  const condition = `${field.type.includes?.(column(field), values)}`;
  return visible === undefined ? condition : `(${condition} and ${values} <@ ${visible})`;
}

/** Returns a comparison that follows the sort order of lists. */
const comparison =
  (operator: '>' | '>=' | '<' | '<=') =>
  (field: Field, { placeholder }: Operand): string => {
    const keys = field.type.order?.(column(field)) ?? [];
    return `(${keys.join(', ')}) ${operator} (${field.type.bounds?.(placeholder()).join(', ')})`;
  };

/** Returns the description of a comparison operator that also matches equal values. */
const inclusive = ({ name }: Field, comparison: string) =>
  `Returns only records whose ${name} equals this value or is ${comparison}.`;

/** All operators, keyed by name. */
export const operators = {
  eq: {
    needs: 'equals',
    repeatable: true,
    index: 'order',
    label: 'is',
    describe: ({ name, type }) =>
      type.element === undefined
        ? `Returns only records whose ${name} equals this value. Can be repeated to match any of several values.`
        : `Returns only records whose ${name} contain this value. Can be repeated to match any of several values.`,
    where: among,
  },
  ne: {
    needs: 'equals',
    repeatable: true,
    index: 'none',
    label: 'is not',
    describe: ({ name, type }) =>
      type.element === undefined
        ? `Returns only records whose ${name} differs from this value or is empty. Can be repeated to exclude several values.`
        : `Returns only records whose ${name} do not contain this value. Can be repeated to exclude several values.`,
    where: (field, operand) => `(${among(field, operand)}) is not true`,
  },
  gt: {
    needs: 'bounds',
    index: 'find',
    label: 'is greater than',
    describe: ({ name }) => `Returns only records whose ${name} is greater or later than this value.`,
    day: 'end',
    where: comparison('>'),
  },
  gte: {
    needs: 'bounds',
    index: 'find',
    label: 'is at least',
    describe: (field) => inclusive(field, 'greater or later'),
    day: 'start',
    where: comparison('>='),
  },
  lt: {
    needs: 'bounds',
    index: 'find',
    label: 'is less than',
    describe: ({ name }) => `Returns only records whose ${name} is less or earlier than this value.`,
    day: 'start',
    where: comparison('<'),
  },
  lte: {
    needs: 'bounds',
    index: 'find',
    label: 'is at most',
    describe: (field) => inclusive(field, 'less or earlier'),
    day: 'end',
    where: comparison('<='),
  },
  in: {
    needs: 'equals',
    repeatable: true,
    index: 'order',
    label: 'is one of',
    // A repeated "is" matches any of the values.
    coveredBy: 'eq',
    describe: ({ name, type }) =>
      type.element === undefined
        ? `Returns only records whose ${name} is one of these values. Repeat the parameter for each value.`
        : `Returns only records whose ${name} contain one of these values. Repeat the parameter for each value.`,
    where: among,
  },
  any: {
    needs: 'includes',
    repeatable: true,
    index: 'order',
    label: 'contains any of',
    // A repeated "is" matches any of the values.
    coveredBy: 'eq',
    describe: ({ name }) =>
      `Returns only records whose ${name} contain this value. Repeat the parameter for records with any of several values.`,
    where: among,
  },
  all: {
    needs: 'includes',
    repeatable: true,
    index: 'order',
    label: 'contains all of',
    describe: ({ name }) =>
      `Returns only records whose ${name} contain this value. Repeat the parameter for records with all of several values.`,
    where: includesAll,
  },
  starts_with: {
    needs: 'startsWith',
    index: 'find',
    label: 'starts with',
    describe: ({ name }) => `Returns only records whose ${name} starts with this text. Case-sensitive.`,
    where: (field, { placeholder }) => `${field.type.startsWith?.(column(field), placeholder())}`,
  },
  contains: {
    needs: 'contains',
    index: 'none',
    label: 'contains',
    describe: ({ name }) => `Returns only records whose ${name} contains this text. Case-sensitive.`,
    where: (field, { placeholder }) => `${field.type.contains?.(column(field), placeholder())}`,
  },
  is_null: {
    needs: 'equals',
    nullable: true,
    words: ['true', 'false'],
    index: 'find',
    label: 'is empty (true or false)',
    describe: ({ name }) =>
      `\`true\` returns only records without ${name}, \`false\` only records with ${name}.`,
    where: (field, { values }) => nullity(field, values[0] === 'true'),
  },
} as const satisfies Readonly<Record<string, FilterOperator>>;

/** The name of an operator. */
export type OperatorName = keyof typeof operators;

/** Returns the operator with this name. */
export const operatorOf = (name: OperatorName): FilterOperator => operators[name];

/** Returns the operators supported by a field. */
export const operatorsOf = ({ type, nullable }: NamedField): readonly OperatorName[] =>
  (Object.keys(operators) as OperatorName[]).filter((name) => {
    const { needs, nullable: needsNull } = operatorOf(name);
    return type[needs] !== undefined && (needsNull !== true || nullable);
  });
