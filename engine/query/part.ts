import { excerpt, type FieldIssue } from '../errors.ts';
import type { Field, JsonSchema } from '../fields/index.ts';
import type { Placeholder } from '../sql/index.ts';

/** A request's query parameters. Repeated parameters are arrays. */
export type Query = Readonly<Record<string, string | readonly string[] | undefined>>;

/** Returns a parameter's value, or undefined if it is absent or empty, because forms submit blank inputs. */
export const parameterValue = (query: Query, name: string): Query[string] => query[name] || undefined;

/** Input for parsing a part's YAML key. */
export interface DeclarationContext {
  /** Value of the part's YAML key, validated by its `yaml` schema. Undefined if absent. */
  readonly yaml: unknown;
  /** The resource's fields, keyed by name. */
  readonly fields: ReadonlyMap<string, Field>;
  /** Reserved parameter names, which filters cannot use. */
  readonly reserved: readonly string[];
  /** Reports an issue at a path within the key's value. */
  readonly report: (path: readonly (string | number)[], message: string) => void;
}

/** A field from a file that may be invalid, for editor schemas. */
export type NamedField = Pick<Field, 'name' | 'type' | 'nullable'>;

/** SQL clauses that a part adds to a list's statement. */
export interface Clauses {
  /** Conditions combined with AND. */
  readonly where?: readonly string[];
  /**
   * Alternative conditions, of which each record meets at most one. Records that meet an earlier condition
   * come first in the list.
   */
  readonly after?: readonly string[];
  /** ORDER BY keys with their directions, most significant first. The last key is unique. */
  readonly order?: readonly string[];
  readonly limit?: number;
  /** Placeholder for the number of rows to skip. */
  readonly offset?: string;
}

/** The index that a query part needs to avoid a scan of the organization's records. */
export interface Cost {
  /** Fields compared with a single value. Their index also provides the order of the list. */
  readonly equal?: readonly Field[];
  /**
   * Fields that an index uses to find the records. The index provides the list's order only if the list is
   * sorted by the same field.
   */
  readonly find?: readonly Field[];
  /** Whether an index finds the records in no particular order. */
  readonly gather?: boolean;
  /** Whether a scan is required. */
  readonly scan?: boolean;
}

/** An index that serves a query part. */
export type Index =
  | {
      /** The field whose name is part of the index's name. */
      readonly field: Field;
      readonly keys: readonly string[];
    }
  | {
      /** Suffix appended to the name of the resource. */
      readonly name: string;
      readonly method: 'gin';
      readonly keys: readonly string[];
    };

/**
 * Returns an SQL expression for the IDs in an array to which the caller's references in a field can lead, or undefined
 * if the references are not limited.
 * @param ids returns an SQL expression for an array of IDs
 */
export type VisibleIds = (field: Field, ids: () => string) => string | undefined;

/** The parts of a list's clauses that depend on the caller. */
export interface CallerSql {
  readonly visibleIds: VisibleIds;
  /**
   * Returns the condition that a field's list of references contains at least one of the IDs in an array. The index of the
   * references serves it.
   */
  readonly refersToAny: (field: Field, ids: string) => string;
  /** Returns an SQL expression for the ID of the caller's organization. */
  readonly organization: () => string;
}

/** A YAML list whose entries belong to fields. A file with `extends` can add and remove entries. */
export interface OverlaidList {
  /** Returns the name of an entry's field. */
  readonly fieldOf: (entry: unknown) => string;
  /** Whether a plain list in the file is added to the extended list instead of replacing it. */
  readonly isAdded: boolean;
}

/**
 * A feature of list queries, with its YAML key, parameters, SQL and description. `Declaration` is the parsed
 * YAML and `Parsed` the parsed request.
 */
export interface QueryPart<Declaration = unknown, Parsed = unknown> {
  /** JSON Schema of the part's YAML key, its name in the registry. Absent if the part does not have a key. */
  readonly yaml?: JsonSchema;
  /** How a file with `extends` changes the part's YAML list. Absent if the file replaces the key's value. */
  readonly list?: OverlaidList;
  /** Returns the key's schema for editors, which allows only the names of suitable fields. */
  readonly yamlOf?: (fields: readonly NamedField[], reserved: readonly string[]) => JsonSchema;
  /** Parses the part's YAML key. The definition stores the result under the part's name. */
  readonly declare: (context: DeclarationContext) => Declaration;
  /** Whether the part also applies to requests for a single record. */
  readonly ofRecord?: true;
  /** Parameter names that cannot be used for filters. */
  readonly reserved?: readonly string[];
  /** Returns the names of the part's parameters for this resource. */
  readonly parameters: (declaration: Declaration) => readonly string[];
  /**
   * Parses the part's parameters and adds issues to `issues`.
   * @param phoneRegion the country of phone numbers without a country code, if the organization has set it
   */
  readonly parse: (
    declaration: Declaration,
    query: Query,
    issues: FieldIssue[],
    phoneRegion?: string,
  ) => Parsed;
  /** Returns a key for everything that affects the SQL text. Requests with equal keys share a statement. */
  readonly shape: (parsed: Parsed) => string;
  /** Returns the index that the part needs. Absent if the part does not need an index. */
  readonly cost?: (parsed: Parsed) => Cost;
  /** Returns the part's SQL clauses. Values are bound with `placeholder`, never inserted into the SQL. */
  readonly clauses: (
    declaration: Declaration,
    parsed: Parsed,
    placeholder: Placeholder<Parsed>,
    caller: CallerSql,
  ) => Clauses;
  /** Returns the OpenAPI description of the part's parameters. */
  readonly describe: (declaration: Declaration) => readonly JsonSchema[];
  /** Returns the indexes that serve the part. @param sort the field of the default order */
  readonly indexes?: (declaration: Declaration, sort: Field) => readonly Index[];
}

/**
 * Creates an issue about a field or parameter.
 * @param message completes "<name> …"
 * @param hint a sentence that suggests a fix
 */
export const parameterIssue = (name: string, message: string, hint?: string): FieldIssue => {
  const field = excerpt(name);
  return hint === undefined
    ? { field, message: `${field} ${message}` }
    : { field, message: `${field} ${message}. ${hint}`, hint };
};
