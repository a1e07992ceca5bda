import type { Expression } from '../expressions/index.ts';
import type {
  Deprecation,
  ElementName,
  Field,
  FieldTypeName,
  JsonSchema,
  Lookup,
  OnDelete,
  ServerValue,
  TextFormatName,
} from '../fields/index.ts';
import type { Children, Declarations, ReferrerOrder } from '../query/index.ts';

/** A checked resource definition from one YAML file, including its shared fields. */
export interface ResourceDefinition extends Declarations {
  readonly name: string;
  /** Path of the file that defines the resource. */
  readonly file: string;
  readonly singular: string;
  readonly description: string;
  /** Names for users: of one record, and of several records. An absent name is derived from `singular` or `name`. */
  readonly label: { readonly one?: string; readonly many?: string };
  /** Explains the resource to users. Absent if it is the description. */
  readonly help?: string;
  readonly screen: Screen;
  /** Whether only the resource's table and records still exist. */
  readonly isRetired: boolean;
  readonly fields: readonly Field[];
  /** Retired fields, of which only the columns still exist. */
  readonly retired: readonly Field[];
  /** Former name of the resource. */
  readonly renamedFrom?: string;
  /** Deprecation dates of the former name, or undefined if callers cannot use a former name. */
  readonly alias?: Deprecation;
  /** Sets of fields whose values are unique within an organization. */
  readonly uniques: readonly Unique[];
  /** Conditions on records that grants can refer to. */
  readonly scopes: readonly Scope[];
  /** Named lists of records that refer to this resource's records. */
  readonly children: readonly Children[];
  /** Orders in which other resources list this resource's records. */
  readonly referrerOrders: readonly ReferrerOrder[];
  /** Conditions that every record must meet. */
  readonly checks: readonly RecordCheck[];
  /** The condition under which records cannot be changed. Absent if records are never locked. */
  readonly locked?: Lock;
  /** Expressions for the values that new records get in absent fields, by field name. */
  readonly defaults: ReadonlyMap<string, Expression>;
  /** The trash to which deletes move records. Absent if deletes remove records immediately. */
  readonly trash?: Trash;
  /** The fields that aggregates can use. Absent if the resource has no aggregates. */
  readonly aggregates?: Aggregates;
}

/** The fields that a resource's aggregates can use, including their former names. */
export interface Aggregates {
  /** Fields by whose values or periods records can be grouped. */
  readonly groupBy: readonly AggregateField[];
  /** Fields whose sums, averages, minimums and maximums can be requested. */
  readonly measures: readonly AggregateField[];
}

/** A field that aggregates can use. */
export interface AggregateField {
  /** The name in requests: the field's name, its former name, or for example `price.currency`. */
  readonly name: string;
  readonly field: Field;
  /** Whether the name is a former one. */
  readonly isFormer?: true;
}

/** A resource's trash. */
export interface Trash {
  /** Number of days after which records in the trash are deleted. */
  readonly days: number;
}

/** How the admin UI shows a resource. */
export interface Screen {
  /** Whether the navigation and the home page omit the resource. */
  readonly isHidden?: true;
  /** Heading under which the navigation lists the resource. */
  readonly section?: string;
  /** Name of an icon. */
  readonly icon?: string;
  /** The fields that form a record's title. Empty for the default title. */
  readonly title: readonly Field[];
  /** The list's columns after the title. Empty for the default columns. */
  readonly columns: readonly Field[];
  /** The field whose values are the columns of the board. */
  readonly board?: Field;
}

/** A condition on several fields. A record for which a missing value leaves the condition undecided meets it. */
export interface RecordCheck {
  readonly condition: Expression;
  /** The fields at which a violation is reported. */
  readonly fields: readonly Field[];
  /** Error message for records that violate the condition. */
  readonly message: string;
}

/** The condition under which a resource's records are locked. */
export interface Lock {
  /** The condition on the stored record. */
  readonly condition: Expression;
  /** Error message for writes to locked records. */
  readonly message?: string;
}

/** A named condition on a record. A grant with a scope allows an action only on records that meet the condition. */
export interface Scope {
  readonly name: string;
  readonly condition: Expression;
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

/** Reports an issue at a key of a field, or at the field's name if `key` is undefined. */
export type ReportIssue = (key: string | undefined, message: string) => void;

/** A rollup in a YAML file. It has exactly one of the functions. */
export interface RawRollup {
  readonly count?: true;
  readonly sum?: string;
  readonly min?: string;
  readonly max?: string;
  readonly avg?: string;
  /** The resource to which the records belong, and their reference. */
  readonly of: string;
  readonly by: string;
  readonly where?: string;
  readonly unscoped?: boolean;
  readonly stored?: boolean;
}

/** A field in a YAML file (resource.schema.json). */
export interface RawField extends RawRename {
  readonly type: string;
  readonly retired?: boolean;
  readonly description?: string;
  readonly label?: string;
  readonly help?: string;
  readonly read_only?: boolean;
  readonly assignable?: boolean;
  readonly nullable?: boolean;
  readonly required?: boolean;
  readonly default?: string | number | boolean | object;
  readonly default_from?: string;
  readonly enum?: readonly string[];
  readonly closed?: boolean;
  /** The values to which each value can change: a list, or a map of values to scopes. */
  readonly transitions?: Readonly<Record<string, readonly string[] | Readonly<Record<string, string>>>>;
  readonly initial?: readonly string[];
  readonly sequence?: string;
  readonly suggested?: readonly string[];
  readonly min?: number;
  readonly max?: number;
  readonly min_length?: number;
  readonly max_length?: number;
  readonly pattern?: string;
  readonly format?: TextFormatName;
  readonly of?: ElementName;
  readonly max_items?: number;
  readonly currency?: string;
  readonly schema?: JsonSchema;
  readonly message?: string;
  readonly to?: string | readonly string[];
  readonly on_delete?: OnDelete;
  readonly through?: string;
  readonly show?: readonly string[];
  readonly set?: ServerValue;
  readonly computed?: string;
  readonly rollup?: RawRollup;
  readonly lookup?: Lookup;
  readonly unique?: boolean;
  readonly sensitive?: boolean;
  readonly group?: string;
}

/** A check in a YAML file (resource.schema.json). */
interface RawCheck {
  readonly that: string;
  readonly fields: readonly string[];
  readonly message: string;
}

/** How the admin UI shows a resource, in a YAML file. */
interface RawScreen {
  readonly hidden?: boolean;
  readonly section?: string;
  readonly icon?: string;
  readonly title?: readonly string[];
  readonly columns?: readonly string[];
  readonly board?: string;
}

/** A list of referring records in a YAML file. */
export interface RawChildren {
  /** The resource to which the records belong, and their reference. */
  readonly of: string;
  readonly by: string;
  readonly sort?: string | { readonly by: string; readonly direction?: 'asc' | 'desc' };
  readonly writable?: boolean;
}

/** Contents of a YAML file (resource.schema.json). */
export interface RawResource extends RawRename {
  /** The resource that the file extends. If set, all other keys and the types of existing fields are optional. */
  readonly extends?: string;
  readonly name?: string;
  readonly singular?: string;
  readonly description?: string;
  readonly label?: string | ResourceDefinition['label'];
  readonly help?: string;
  readonly retired?: boolean;
  readonly screen?: RawScreen;
  readonly common?: 'all' | 'none' | readonly string[];
  readonly fields: Readonly<Record<string, RawField>>;
  readonly unique?: readonly string[] | readonly (readonly string[])[];
  readonly scopes?: Readonly<Record<string, string>>;
  readonly children?: Readonly<Record<string, RawChildren>>;
  readonly checks?: readonly RawCheck[];
  readonly locked?: string | { readonly when: string; readonly message?: string };
  readonly trash?: string;
  readonly custom_fields?: boolean;
  readonly aggregates?: { readonly group_by?: readonly string[]; readonly measures?: readonly string[] };
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
  /** The values that the integration writes. Absent if it writes values that it receives. */
  readonly values?: readonly string[];
  /** The field's `lookup`, which the integration uses to find records. */
  readonly lookup?: Lookup;
}
