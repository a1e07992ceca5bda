import type { Deprecation, Field, FieldTypeName, Lookup, ServerValue } from '../fields/index.ts';
import type { Declarations } from '../query/index.ts';

/** A checked resource definition from one YAML file, including its shared fields. */
export interface ResourceDefinition extends Declarations {
  readonly name: string;
  /** The file that defines it. */
  readonly file: string;
  readonly singular: string;
  readonly description: string;
  readonly fields: readonly Field[];
  /** Fields of which only the columns remain. */
  readonly retired: readonly Field[];
  /** The former name. */
  readonly renamedFrom?: string;
  /** How long callers can use the former name. */
  readonly alias?: Deprecation;
  /** Fields, or groups of fields, whose values are unique within an organization. */
  readonly uniques: readonly Unique[];
}

/** Fields that are unique together. Records in which one of them is empty are exempt. */
export type Unique = readonly [Field, ...Field[]];

/** The keys that declare a rename. */
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

/** The content of a YAML file (resource.schema.json). */
export interface RawResource extends RawRename {
  /** The resource that the file extends. All other keys, and the types of existing fields, are then optional. */
  readonly extends?: string;
  readonly name?: string;
  readonly singular?: string;
  readonly description?: string;
  readonly common?: 'all' | readonly string[];
  readonly fields: Readonly<Record<string, RawField>>;
  readonly unique?: readonly string[] | readonly (readonly string[])[];
  /** The keys of the query parts, which define their shapes. */
  readonly [part: string]: unknown;
}

/** Fields that an integration uses, so that the definition must have them. */
export interface FieldRequirements {
  /** The source file that uses the fields. */
  readonly file: string;
  readonly resource: string;
  readonly fields: Readonly<Record<string, RequiredField>>;
}

/** Requirements for a field. */
export interface RequiredField {
  readonly types: readonly FieldTypeName[];
  /** The field must be writable, because writes to a read-only field are ignored. */
  readonly writable?: true;
  /** The `lookup` with which records are found. */
  readonly lookup?: Lookup;
}
