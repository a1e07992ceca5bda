import type { Field, FieldType } from '../fields/index.ts';

/** How a filter compares a field with the values of a request. */
export interface FilterOperator {
  /** The parameter of a field. */
  readonly parameter: (field: string) => string;
  /** The ability that a field's type needs; filtering by a type without it is a mistake in the YAML. */
  readonly needs: keyof FieldType & ('equals' | 'order');
  readonly describe: (field: Field) => string;
  /** The condition; `placeholder` is one value, or a list of them where `many`. */
  readonly where: (type: FieldType, column: string, placeholder: string, many: boolean) => string;
}

/** `?field=value`: exactly this value; repeated, any of them. */
const eq: FilterOperator = {
  parameter: (field) => field,
  needs: 'equals',
  describe: ({ name }) =>
    `Only records with exactly this ${name}. Repeated, up to 50 times: any of them. Empty: no filter.`,
  where: (type, column, placeholder, many) => `${(many ? type.among : type.equals)?.(column, placeholder)}`,
};

/** Every operator by its name. */
export const operators = { eq } as const satisfies Readonly<Record<string, FilterOperator>>;

/** The name of an operator. */
export type OperatorName = keyof typeof operators;
