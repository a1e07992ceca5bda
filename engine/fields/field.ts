import type { FieldTypeName, TypeOptions } from './field-types.ts';
import type { RuleOptions } from './rules.ts';
import type { ColumnDefinition, Comparisons, FieldType } from './type.ts';

/** Kind of value that the server writes to a read-only field. */
export type ServerValue = 'id' | 'organization' | 'creator' | 'editor' | 'created' | 'updated';

/**
 * What a delete of the referenced record does to the records that refer to it: `clear` sets the reference to null,
 * `restrict` rejects the delete, and `cascade` deletes these records, too.
 */
export type OnDelete = 'clear' | 'restrict' | 'cascade';

/** The changes that are allowed to a field's value. Keeping a value is always allowed. */
export interface Transitions {
  /** Values that a new record can have. */
  readonly initial: readonly string[];
  /** Values to which each value can change. A value without an entry is final. */
  readonly next: ReadonlyMap<string, readonly string[]>;
  /** Scopes to which changes are limited: for each value, the names of the scopes by the next value. */
  readonly scopes?: ReadonlyMap<string, ReadonlyMap<string, string>>;
}

/** Returns the name of the scope to which a change is limited, or undefined if it is not limited. */
export const transitionScope = ({ scopes }: Transitions, from: string, to: string): string | undefined =>
  scopes?.get(from)?.get(to);

/** The format of the values that new records get from a field's sequence. */
export interface SequenceFormat {
  /** The format as declared, for example `T-{year}-{0000}`. */
  readonly format: string;
  /** Text before the number, in which `{year}` stands for the year of creation in UTC. */
  readonly prefix: string;
  /** Minimum number of digits. */
  readonly digits: number;
  /** Text after the number, which can contain `{year}`, too. */
  readonly suffix: string;
}

/** An expression that reads stored fields of a record. */
export interface Computation {
  /** The text from the definition. */
  readonly source: string;
  /** Names of the stored fields that it reads. */
  readonly fields: readonly string[];
  /**
   * Returns the SQL expression for the value, which can be used as an operand.
   * @param columnOf returns the SQL expression for a stored field's value
   */
  readonly sql: (columnOf: (field: string) => string) => string;
}

/** A function that a rollup applies to values. */
export type RollupFunction = 'count' | 'sum' | 'min' | 'max' | 'avg';

/** A value calculated from all records that refer to a record. */
export interface Rollup {
  readonly function: RollupFunction;
  /** The field of the referring records to which the function is applied. Absent for `count`. */
  readonly field?: Field;
  /** The resource to which the referring records belong. */
  readonly of: string;
  /** Name of their reference. */
  readonly by: string;
  /** The condition that the referring records must meet. Absent if all of them count. */
  readonly condition?: Computation;
  /** Whether the value is a column, which every write of a referring record updates. */
  readonly isStored: boolean;
}

/** A checked field of a resource, with its type and YAML options. */
export interface Field extends RuleOptions, TypeOptions, Comparisons {
  readonly name: string;
  /** Location of the field in its YAML file, as `file:line:column`. */
  readonly location: string;
  readonly typeName: FieldTypeName;
  readonly type: FieldType;
  readonly description: string;
  /** The field's name for users. Absent if it is derived from `name` (see `fieldLabel`). */
  readonly label?: string;
  /** Help for users who enter a value. Absent if it is the description. */
  readonly help?: string;
  readonly readOnly: boolean;
  /** Whether a PUT without the field keeps its value, because the caller cannot write the field, but hooks can. */
  readonly isKept?: true;
  readonly nullable: boolean;
  readonly required: boolean;
  /** Value used if the request body omits the field. Null if the field is nullable or has no default. */
  readonly default: string | number | boolean | object | null;
  readonly transitions?: Transitions;
  /** The sequence from which the server takes the values of new records. */
  readonly sequence?: SequenceFormat;
  /** Error message for values that violate a rule. Default: a generated message. */
  readonly message?: string;
  /** The resource that a reference points to. Absent if it points to one of several resources. */
  readonly to?: string;
  /** If the field refers to one of several resources, the references to each of them, which are its columns. */
  readonly alternatives?: readonly Field[];
  /** If this is one of a field's `alternatives`, the name of the field. */
  readonly alternativeOf?: string;
  /** Only references have it. */
  readonly onDelete?: OnDelete;
  readonly through?: string;
  readonly show?: readonly string[];
  readonly set?: ServerValue;
  /** The expression for the field's values. Such a field is not stored. */
  readonly computed?: Computation;
  /** How values are calculated from other records, either when they are read or when these records are written. */
  readonly rollup?: Rollup;
  /** Whether values must be unique within an organization. */
  readonly unique: boolean;
  /** Whether the change log omits the field's values. */
  readonly sensitive: boolean;
  /** Group whose grants a caller needs in order to see or write the field. */
  readonly group?: string;
  /** Former name of the field. */
  readonly renamedFrom?: string;
  /** Deprecation dates of the former name, or undefined if callers cannot use a former name. */
  readonly alias?: Deprecation;
  /** If this is a custom field, the resource whose records have it, and its key in their `custom` object. */
  readonly custom?: { readonly resource: string; readonly key: string };
  /** The field that this field exposes under its former name. Such an alias is not stored. */
  readonly aliasOf?: Field;
}

/** Returns whether a field is a rollup with a column. Its former name is not. */
export const isStoredRollup = ({ rollup, aliasOf }: Pick<Field, 'rollup' | 'aliasOf'>): boolean =>
  rollup?.isStored === true && aliasOf === undefined;

/** Returns whether a field's values are user IDs. */
export const refersToUser = ({ set, type }: Pick<Field, 'set' | 'type'>): boolean =>
  type.users === true || set === 'creator' || set === 'editor';

/** Returns whether a field's values are lists of references. */
export const refersToMany = ({ type }: Pick<Field, 'type'>): boolean =>
  type.refers === true && type.element !== undefined;

/** Returns whether callers can write a user's ID to a field. */
export const namesMember = (field: Pick<Field, 'set' | 'type' | 'readOnly'>): boolean =>
  refersToUser(field) && !field.readOnly;

/** Returns whether a resource's records have custom fields. */
export const hasCustomFields = ({ fields }: { readonly fields: readonly Pick<Field, 'type'>[] }): boolean =>
  fields.some(({ type }) => type.custom === true);

/** Returns whether a PUT without the field keeps the stored value. */
export const isKeptIfAbsent = (field: Pick<Field, 'set' | 'readOnly' | 'type' | 'isKept'>): boolean =>
  isAssignable(field) || refersToMany(field) || field.isKept === true;

/** Returns whether hooks can write a field that the caller cannot write: it has columns, and the server does not set its value. */
export const isHookWritable = ({
  set,
  computed,
  rollup,
  sequence,
  aliasOf,
  through,
}: Pick<Field, 'set' | 'computed' | 'rollup' | 'sequence' | 'aliasOf' | 'through'>): boolean =>
  [set, computed, rollup, sequence, aliasOf, through].every((value) => value === undefined);

/** Returns whether a field contains the creator unless the caller assigns another user. */
export const isAssignable = ({ set, readOnly }: Pick<Field, 'set' | 'readOnly'>): boolean =>
  set !== undefined && !readOnly;

/** The dates of a deprecated name. */
export interface Deprecation {
  /** Date from which the name is deprecated, as YYYY-MM-DD. */
  readonly deprecated: string;
  /** Date from which the name might be unavailable, as YYYY-MM-DD. */
  readonly sunset: string;
}

/** Returns the columns that store a field, including their names. Empty if the field is computed on read. */
export const fieldColumns = (field: Field): readonly (ColumnDefinition & { readonly name: string })[] =>
  (field.type.columns?.(field) ?? []).map((column) => ({ ...column, name: `${field.name}${column.suffix}` }));
