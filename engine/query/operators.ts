import type { Field, FieldType } from '../fields/index.ts';
import { column } from '../sql/index.ts';

/** The values of a filter, as its condition uses them. */
export interface Operand {
  /** The values as parameters of the field's type, or the words of the operator. */
  readonly values: readonly string[];
  /** Gives the placeholder of the value, or of the list of them where there are several. */
  readonly placeholder: () => string;
}

/** How a filter compares a field with the values of a request, as in `?field[operator]=value`. */
export interface FilterOperator {
  /** The ability that a field's type needs; declaring it for a type without it is a mistake in the YAML. */
  readonly needs: keyof FieldType & ('equals' | 'bounds' | 'startsWith' | 'contains');
  /** Compares with "no value", so the field must be nullable. */
  readonly nullable?: true;
  /** Takes several values. Otherwise it may be given once. */
  readonly repeatable?: true;
  /** The values that it takes, where they are not those of the field; each has a statement of its own. */
  readonly words?: readonly string[];
  /**
   * What an index can do: find one value's records in the order of the list, find the records in any order, or
   * nothing, so that the organization's records are read one by one.
   */
  readonly index: 'order' | 'find' | 'none';
  readonly describe: (field: Field) => string;
  /** The condition. It is true or not true; "no value" counts as not true. */
  readonly where: (field: Field, operand: Operand) => string;
}

/** "column is the value", or one of the values. */
const among = (field: Field, { values, placeholder }: Operand): string => {
  const compare = values.length > 1 ? field.type.among : field.type.equals;
  return `${compare?.(column(field), placeholder(), field.lookup)}`;
};

/** A comparison in the order that lists have. */
const comparison =
  (operator: '>' | '>=' | '<' | '<=') =>
  (field: Field, { placeholder }: Operand): string => {
    const keys = field.type.order?.(column(field)) ?? [];
    return `(${keys.join(', ')}) ${operator} (${field.type.bounds?.(placeholder()).join(', ')})`;
  };

const inclusive = ({ name }: Field, what: string) => `Only records whose ${name} is this or ${what}.`;

/** Every operator by its name. */
export const operators = {
  eq: {
    needs: 'equals',
    repeatable: true,
    index: 'order',
    describe: ({ name }) => `Only records with exactly this ${name}. Repeated: any of them.`,
    where: among,
  },
  ne: {
    needs: 'equals',
    repeatable: true,
    index: 'none',
    describe: ({ name }) =>
      `Only records with another ${name}, and those without one. Repeated: none of them.`,
    where: (field, operand) => `(${among(field, operand)}) is not true`,
  },
  gt: {
    needs: 'bounds',
    index: 'find',
    describe: ({ name }) => `Only records whose ${name} is greater, or later, than this.`,
    where: comparison('>'),
  },
  gte: {
    needs: 'bounds',
    index: 'find',
    describe: (field) => inclusive(field, 'greater, or later'),
    where: comparison('>='),
  },
  lt: {
    needs: 'bounds',
    index: 'find',
    describe: ({ name }) => `Only records whose ${name} is less, or earlier, than this.`,
    where: comparison('<'),
  },
  lte: {
    needs: 'bounds',
    index: 'find',
    describe: (field) => inclusive(field, 'less, or earlier'),
    where: comparison('<='),
  },
  in: {
    needs: 'equals',
    repeatable: true,
    index: 'order',
    describe: ({ name }) => `Only records whose ${name} is one of these: repeat the parameter for each.`,
    where: among,
  },
  starts_with: {
    needs: 'startsWith',
    index: 'find',
    describe: ({ name }) => `Only records whose ${name} begins with exactly this.`,
    where: (field, { placeholder }) => `${field.type.startsWith?.(column(field), placeholder())}`,
  },
  contains: {
    needs: 'contains',
    index: 'none',
    describe: ({ name }) => `Only records whose ${name} contains exactly this.`,
    where: (field, { placeholder }) => `${field.type.contains?.(column(field), placeholder())}`,
  },
  is_null: {
    needs: 'equals',
    nullable: true,
    words: ['true', 'false'],
    index: 'find',
    describe: ({ name }) => `true: only records without ${name}; false: only records with one.`,
    where: (field, { values }) => `${column(field)} is ${values[0] === 'true' ? 'null' : 'not null'}`,
  },
} as const satisfies Readonly<Record<string, FilterOperator>>;

/** The name of an operator. */
export type OperatorName = keyof typeof operators;

/** An operator by its name, whichever it is. */
export const operatorOf = (name: OperatorName): FilterOperator => operators[name];
