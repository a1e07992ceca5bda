import type { FieldTypeName } from './field-types.ts';
import type { Lookup } from './lookups.ts';
import type { ColumnDefinition, FieldType } from './type.ts';

/** What the server writes into a read-only field, and when. */
export type ServerValue = 'id' | 'organization' | 'creator' | 'editor' | 'created' | 'updated';

/** A checked field of a resource: its type and its YAML options. */
export interface Field {
  readonly name: string;
  /** Its position in the YAML, as file:line:column. */
  readonly location: string;
  readonly typeName: FieldTypeName;
  readonly type: FieldType;
  readonly description: string;
  readonly readOnly: boolean;
  readonly nullable: boolean;
  readonly required: boolean;
  /** The value if a body has none; null for nullable fields and fields without a default. */
  readonly default: string | number | boolean | null;
  /** Known values; `closed` if reports know only these (the API accepts any string in either case). */
  readonly values?: { readonly list: readonly string[]; readonly closed: boolean };
  readonly maxLength?: number;
  readonly pattern?: string;
  readonly to?: string;
  readonly through?: string;
  readonly show?: readonly string[];
  readonly set?: ServerValue;
  /** Whether no two records of an organization may have the same value. */
  readonly unique: boolean;
  /** Whether its values stay out of the ledger. */
  readonly sensitive: boolean;
  /** How the instance's own endpoints find records by it; indexed. */
  readonly lookup?: Lookup;
  /** The name that it had. */
  readonly renamedFrom?: string;
  /** How long callers may still use the name that it had. */
  readonly alias?: Deprecation;
  /** The field whose former name this is: it shows the same value and is stored nowhere. */
  readonly aliasOf?: Field;
}

/** Since when a name is deprecated, and when it may be gone. */
export interface Deprecation {
  /** A calendar day. */
  readonly deprecated: string;
  /** A calendar day. */
  readonly sunset: string;
}

/** The columns that store a field, with their names; none if it is computed on read. */
export const fieldColumns = (field: Field): readonly (ColumnDefinition & { readonly name: string })[] =>
  (field.type.columns?.(field) ?? []).map((column) => ({ ...column, name: `${field.name}${column.suffix}` }));
