import type { FieldTypeName } from './field-types.ts';
import type { ColumnDefinition, FieldType, Lookup } from './type.ts';

/** Kind of value that the server writes to a read-only field. */
export type ServerValue = 'id' | 'organization' | 'creator' | 'editor' | 'created' | 'updated';

/** A checked field of a resource, with its type and YAML options. */
export interface Field {
  readonly name: string;
  /** Location of the field in its YAML file, as `file:line:column`. */
  readonly location: string;
  readonly typeName: FieldTypeName;
  readonly type: FieldType;
  readonly description: string;
  readonly readOnly: boolean;
  readonly nullable: boolean;
  readonly required: boolean;
  /** Value used if the request body omits the field. Null if the field is nullable or has no default. */
  readonly default: string | number | boolean | null;
  /** Known values. If `closed` is true, reports include only these. The API always accepts any string. */
  readonly values?: { readonly list: readonly string[]; readonly closed: boolean };
  readonly maxLength?: number;
  readonly pattern?: string;
  readonly to?: string;
  readonly through?: string;
  readonly show?: readonly string[];
  readonly set?: ServerValue;
  /** Whether values must be unique within an organization. */
  readonly unique: boolean;
  /** Whether the change log omits the field's values. */
  readonly sensitive: boolean;
  /** How partner endpoints find records by this field. Adds an index. */
  readonly lookup?: Lookup;
  /** Former name of the field. */
  readonly renamedFrom?: string;
  /** Deprecation dates of the former name, or undefined if callers cannot use a former name. */
  readonly alias?: Deprecation;
  /** The field that this field exposes under its former name. Such an alias is not stored. */
  readonly aliasOf?: Field;
}

/** Returns whether a field's values are user IDs. */
export const refersToUser = ({ set }: Pick<Field, 'set'>): boolean => set === 'creator' || set === 'editor';

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
