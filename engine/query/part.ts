import { excerpt, type FieldIssue } from '../errors.ts';
import type { Field, JsonSchema } from '../fields/index.ts';
import type { Placeholder } from '../sql/index.ts';

/** The query parameters of a request; repeated ones are lists. */
export type Query = Readonly<Record<string, string | readonly string[] | undefined>>;

/** Returns the value of a parameter, or undefined if it is absent or empty, because forms submit blank inputs. */
export const parameterValue = (query: Query, name: string): Query[string] => query[name] || undefined;

/** The input for parsing a part's YAML key. */
export interface DeclarationContext {
  /** The value of the part's key in the YAML file, validated by its `yaml` schema; undefined if absent. */
  readonly yaml: unknown;
  /** The resource's fields, by name. */
  readonly fields: ReadonlyMap<string, Field>;
  /** Reserved parameters: no field may be filtered by these names. */
  readonly reserved: readonly string[];
  /** Reports an issue at a path within the key. */
  readonly report: (path: readonly (string | number)[], message: string) => void;
}

/** A field for the editor's schema; its file can still be invalid. */
export type NamedField = Pick<Field, 'name' | 'type' | 'nullable'>;

/** Clauses that a part adds to a list's statement. */
export interface Clauses {
  /** Conditions combined with AND. */
  readonly where?: readonly string[];
  /** Alternative conditions: each record meets at most one, and records of earlier conditions are sorted first. */
  readonly after?: readonly string[];
  /** Keys of the order, most significant first, each with its direction; the last one is unique. */
  readonly order?: readonly string[];
  readonly limit?: number;
  /** Placeholder of the number of rows to skip. */
  readonly offset?: string;
}

/** The index that a part needs to avoid a scan of the organization's records. */
export interface Cost {
  /** Fields compared with a single value: an index provides the order of the list. */
  readonly equal?: readonly Field[];
  /** Fields by which an index finds the records, in the order of the list only if that is the order of the field. */
  readonly find?: readonly Field[];
  /** Whether an index finds the records without an order. */
  readonly gather?: boolean;
  /** Whether a scan is required. */
  readonly scan?: boolean;
}

/** An index that serves a part: SQL keys in their order. */
export type Index =
  | {
      /** The field that names it. */
      readonly field: Field;
      readonly keys: readonly string[];
    }
  | {
      /** Appended to the name of the resource. */
      readonly name: string;
      readonly method: 'gin';
      readonly keys: readonly string[];
    };

/**
 * One part of list queries: its YAML key, its parameters, its SQL and its description.
 * `Declared` is parsed from the YAML, `Parsed` from a request.
 */
export interface QueryPart<Declaration = unknown, Parsed = unknown> {
  /** The JSON Schema of its YAML key, which is the part's name in the registry; absent if it has none. */
  readonly yaml?: JsonSchema;
  /** What a resource with these fields can have under the key, for editors: the schema says what its names may be. */
  readonly yamlOf?: (fields: readonly NamedField[], reserved: readonly string[]) => JsonSchema;
  /** Reads its YAML key; the definition holds the result under the part's name. */
  readonly declare: (context: DeclarationContext) => Declaration;
  /** Whether it also applies to a single record. */
  readonly ofRecord?: true;
  /** Reserved parameters, whose names cannot be used for filters. */
  readonly reserved?: readonly string[];
  /** Returns the names of its parameters for this resource. */
  readonly parameters: (declaration: Declaration) => readonly string[];
  /** Parses its parameters; adds issues to `problems`. */
  readonly parse: (declaration: Declaration, query: Query, issues: FieldIssue[]) => Parsed;
  /** Returns what the statement's text depends on; requests with the same shape share a statement. */
  readonly shape: (parsed: Parsed) => string;
  /** Returns the index it needs; absent if it does not need one. */
  readonly cost?: (parsed: Parsed) => Cost;
  /** Returns its clauses. Values are bound with `placeholder`, never inserted into the text. */
  readonly clauses: (declaration: Declaration, parsed: Parsed, placeholder: Placeholder<Parsed>) => Clauses;
  /** Returns the OpenAPI description of its parameters. */
  readonly describe: (declaration: Declaration) => readonly JsonSchema[];
  /** Returns the indexes that serve it; `sort` is the field of the default order. */
  readonly indexes?: (declaration: Declaration, sort: Field) => readonly Index[];
}

/** Returns the issue of a field or parameter; the message starts with its name. */
export const parameterIssue = (name: string, message: string): FieldIssue => {
  const field = excerpt(name);
  return { field, message: `${field} ${message}` };
};
