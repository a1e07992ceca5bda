import type { Field } from '../fields/index.ts';
import type { OperatorName } from './operators.ts';

/** A filterable field and its operators. */
export interface Filter {
  /** The name in requests: the field's name, or for example `price.currency`. */
  readonly name: string;
  readonly field: Field;
  /** The operators, including those of implied parameters. */
  readonly operators: readonly OperatorName[];
  readonly parameters: readonly FilterParameter[];
}

/** A query parameter of a filter. */
export interface FilterParameter {
  readonly name: string;
  readonly operator: OperatorName;
  /**
   * How the records are found without an index for the filter: with the index of the references, if the definition does not
   * declare the parameter, or by a scan. Absent if the filter has an index.
   */
  readonly source?: 'references' | 'scan';
}
