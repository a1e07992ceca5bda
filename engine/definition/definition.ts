import type { FieldType, FieldTypeName, Lookup } from '../fields/index.ts';

/** What the server writes into a read-only field, and when. */
export type ServerValue = 'id' | 'organization' | 'creator' | 'editor' | 'created' | 'updated';

/** A checked field of a resource. */
export interface Field {
  readonly name: string;
  readonly typeName: FieldTypeName;
  readonly type: FieldType;
  readonly description: string;
  readonly readOnly: boolean;
  readonly nullable: boolean;
  readonly required: boolean;
  /** The value where a body has none; null for "or null" fields and those without any. */
  readonly default: string | number | boolean | null;
  /** Known values; `closed` to say that reports know only these (the API accepts any string all the same). */
  readonly values?: { readonly list: readonly string[]; readonly closed: boolean };
  readonly maxLength?: number;
  readonly pattern?: string;
  readonly to?: string;
  readonly through?: string;
  readonly show?: readonly string[];
  readonly set?: ServerValue;
  /** How the instance's own endpoints find records by it; indexed. */
  readonly lookup?: Lookup;
}

/** A checked resource definition: what one YAML file says, with the shared fields put in. */
export interface ResourceDefinition {
  readonly name: string;
  readonly singular: string;
  readonly description: string;
  readonly fields: readonly Field[];
  readonly sort: { readonly by: Field; readonly direction: 'asc' | 'desc'; readonly selectable: boolean };
  readonly filters: readonly Field[];
}

/** One field as a YAML file has it (resource.schema.json). */
export interface RawField {
  readonly type: string;
  readonly description?: string;
  readonly read_only?: boolean;
  readonly nullable?: boolean;
  readonly required?: boolean;
  readonly default?: string | number | boolean;
  readonly enum?: readonly string[];
  readonly suggested?: readonly string[];
  readonly max_length?: number;
  readonly pattern?: string;
  readonly to?: string;
  readonly through?: string;
  readonly show?: readonly string[];
  readonly set?: ServerValue;
  readonly lookup?: Lookup;
}

/** One file as YAML has it (resource.schema.json). */
export interface RawResource {
  readonly name?: string;
  readonly singular?: string;
  readonly description?: string;
  readonly common?: 'all' | readonly string[];
  readonly fields: Readonly<Record<string, RawField>>;
  readonly sort?: { readonly by: string; readonly direction?: 'asc' | 'desc'; readonly selectable?: boolean };
  readonly filters?: readonly string[];
}
