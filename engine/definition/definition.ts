import type { Deprecation, Field, FieldTypeName, Lookup, ServerValue } from '../fields/index.ts';
import type { Declarations } from '../query/index.ts';

/** A checked resource definition: what one YAML file says, with the shared fields put in. */
export interface ResourceDefinition extends Declarations {
  readonly name: string;
  /** The file that defines it. */
  readonly file: string;
  readonly singular: string;
  readonly description: string;
  readonly fields: readonly Field[];
  /** Fields that only their columns are left of. */
  readonly retired: readonly Field[];
  /** The name that it had. */
  readonly renamedFrom?: string;
  /** How long callers may still use the name that it had. */
  readonly alias?: Deprecation;
  /** Fields that no two records of an organization have the same values of, if they have any. */
  readonly uniques: readonly Unique[];
}

/** Fields that are unique together; a record in which one of them is empty may be there any number of times. */
export type Unique = readonly [Field, ...Field[]];

/** The keys that declare a new name. */
export interface RawRename {
  readonly renamed_from?: string;
  readonly alias?: boolean;
  readonly deprecated?: string;
  readonly sunset?: string;
}

/** One field as a YAML file has it (resource.schema.json). */
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

/** One file as YAML has it (resource.schema.json). */
export interface RawResource extends RawRename {
  /** The resource that it adds to, or changes; then all other keys are optional, and so is the type of fields there are. */
  readonly extends?: string;
  readonly name?: string;
  readonly singular?: string;
  readonly description?: string;
  readonly common?: 'all' | readonly string[];
  readonly fields: Readonly<Record<string, RawField>>;
  readonly unique?: readonly string[] | readonly (readonly string[])[];
  /** The keys of the query parts, in the shapes that they require. */
  readonly [part: string]: unknown;
}

/** Fields that a part of the service writes or finds records by, which a definition must therefore have. */
export interface FieldRequirements {
  /** The source file that needs them. */
  readonly file: string;
  readonly resource: string;
  readonly fields: Readonly<Record<string, RequiredField>>;
}

/** What a needed field must be. */
export interface RequiredField {
  readonly types: readonly FieldTypeName[];
  /** Written as a caller would: a read-only field would silently stay empty. */
  readonly writable?: true;
  /** Records are found by it: `lookup` gives the comparison and the index. */
  readonly lookup?: Lookup;
}
