import { excerpt, type FieldIssue } from '../errors.ts';
import type { Field, JsonSchema } from '../fields/index.ts';
import type { Placeholder } from '../sql/index.ts';

/** A request's query parameters; a repeated one is a list. */
export type Query = Readonly<Record<string, string | readonly string[] | undefined>>;

/** Returns the value of a parameter, or undefined if it is absent or empty: forms send inputs that were left blank. */
export const parameterValue = (query: Query, name: string): Query[string] => query[name] || undefined;

/** The input of a part that reads its YAML key. */
export interface DeclarationContext {
  /** The value of the part's key in the YAML file, validated by its `yaml` schema; undefined if absent. */
  readonly yaml: unknown;
  /** The resource's fields, by name. */
  readonly fields: ReadonlyMap<string, Field>;
  /** Reserved parameters: no field may be filtered by these names. */
  readonly reserved: readonly string[];
  /** Reports a mistake at a path within the key. */
  readonly report: (path: readonly (string | number)[], message: string) => void;
}

/** A field as an editor knows it: its file may still be wrong. */
export type NamedField = Pick<Field, 'name' | 'type' | 'nullable'>;

/** What a part adds to the statement of a list. */
export interface Clauses {
  /** Conditions, all of which must hold. */
  readonly where?: readonly string[];
  /** Conditions of which one must hold; no record has two, and the records of each come before those of the next. */
  readonly after?: readonly string[];
  /** Keys of the order, most significant first, each with its direction; the last one is unique. */
  readonly order?: readonly string[];
  readonly limit?: number;
  /** Placeholder of the number of rows to skip. */
  readonly offset?: string;
}

/** The index that a part needs so that it does not scan all records of the organization. */
export interface Cost {
  /** Fields that are compared with one value each: an index has them in the order of the list. */
  readonly equal?: readonly Field[];
  /** Fields by which an index finds the records, in the order of the list only if that is the order of the field. */
  readonly find?: readonly Field[];
  /** An index finds the records, in no order. */
  readonly gather?: boolean;
  /** No index gives the page in its order. */
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
 * `Declared` is parsed from the YAML, `Asked` from a request.
 */
export interface QueryPart<Declared = unknown, Asked = unknown> {
  /** The JSON Schema of its YAML key, which is the part's name in the registry; absent if it has none. */
  readonly yaml?: JsonSchema;
  /** What a resource with these fields can have under the key, for editors: the schema says what its names may be. */
  readonly yamlOf?: (fields: readonly NamedField[], reserved: readonly string[]) => JsonSchema;
  /** Reads its YAML key; the definition holds the result under the part's name. */
  readonly declare: (declaring: DeclarationContext) => Declared;
  /** Whether it also shapes a record that is read by its id. */
  readonly ofRecord?: true;
  /** Parameters that it always reserves, so that no field may be filtered by one of these names. */
  readonly reserved?: readonly string[];
  /** Names of the parameters that it knows for this resource. */
  readonly parameters: (declared: Declared) => readonly string[];
  /** Reads its parameters from a request; adds what is wrong to `problems`. */
  readonly parse: (declared: Declared, query: Query, problems: FieldIssue[]) => Asked;
  /** The part of `asked` that the statement's text depends on; requests of one shape share a statement. */
  readonly shape: (asked: Asked) => string;
  /** The index that it needs; absent if it needs none. */
  readonly cost?: (asked: Asked) => Cost;
  /** Its part of the statement. Values go through `placeholder`, never into the text. */
  readonly clauses: (declared: Declared, asked: Asked, placeholder: Placeholder<Asked>) => Clauses;
  /** Its parameters as OpenAPI describes them. */
  readonly describe: (declared: Declared) => readonly JsonSchema[];
  /** Indexes that serve it; `sort` is the field of the default order. */
  readonly indexes?: (declared: Declared, sort: Field) => readonly Index[];
}

/** Returns the error of a field or parameter; the message starts with its name. */
export const parameterIssue = (name: string, message: string): FieldIssue => {
  const field = excerpt(name);
  return { field, message: `${field} ${message}` };
};
