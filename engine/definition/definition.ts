import type { Deprecation, Field, FieldTypeName, Lookup, ServerValue } from '../fields/index.ts';
import type { Declarations } from '../query/index.ts';

/** A checked resource definition from one YAML file, including its shared fields. */
export interface ResourceDefinition extends Declarations {
  readonly name: string;
  /** Path of the file that defines the resource. */
  readonly file: string;
  readonly singular: string;
  readonly description: string;
  readonly fields: readonly Field[];
  /** Retired fields, of which only the columns still exist. */
  readonly retired: readonly Field[];
  /** Former name of the resource. */
  readonly renamedFrom?: string;
  /** Deprecation dates of the former name, or undefined if callers cannot use a former name. */
  readonly alias?: Deprecation;
  /** Sets of fields whose values are unique within an organization. */
  readonly uniques: readonly Unique[];
}

/** Fields that are unique together. Records with an empty value in any of these fields are exempt. */
export type Unique = readonly [Field, ...Field[]];

/** YAML keys that declare a rename. */
export interface RawRename {
  readonly renamed_from?: string;
  readonly alias?: boolean;
  readonly deprecated?: string;
  readonly sunset?: string;
}

/** A field in a YAML file (resource.schema.json). */
export interface RawField extends RawRename {
  readonly type: string;
  readonly retired?: boolean;
  readonly description?: string;
  readonly read_only?: boolean;
  readonly assignable?: boolean;
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
  readonly unique?: boolean;
  readonly sensitive?: boolean;
}

/** Contents of a YAML file (resource.schema.json). */
export interface RawResource extends RawRename {
  /** The resource that the file extends. If set, all other keys and the types of existing fields are optional. */
  readonly extends?: string;
  readonly name?: string;
  readonly singular?: string;
  readonly description?: string;
  readonly common?: 'all' | readonly string[];
  readonly fields: Readonly<Record<string, RawField>>;
  readonly unique?: readonly string[] | readonly (readonly string[])[];
  /** Keys of the query parts, which validate their own values. */
  readonly [part: string]: unknown;
}

/** Fields that a definition must have because an integration uses them. */
export interface FieldRequirements {
  /** The source file that uses the fields. */
  readonly file: string;
  readonly resource: string;
  readonly fields: Readonly<Record<string, RequiredField>>;
}

/** Requirements for a field. */
export interface RequiredField {
  readonly types: readonly FieldTypeName[];
  /** Whether the field must be writable. Writes to read-only fields are ignored. */
  readonly writable?: true;
  /** The field's `lookup`, which the integration uses to find records. */
  readonly lookup?: Lookup;
}
