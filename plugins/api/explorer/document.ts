import type { JsonSchema } from '../../../engine/fields/index.ts';
import { apiPrefix } from '../../../engine/http/index.ts';

/** A JSON schema in the OpenAPI document, with the keywords that the explorer shows. */
export interface Schema {
  readonly $ref?: string;
  readonly type?: string | readonly string[];
  readonly format?: string;
  readonly description?: string;
  readonly enum?: readonly unknown[];
  readonly 'x-extensible-enum'?: readonly unknown[];
  readonly minimum?: number;
  readonly maximum?: number;
  readonly const?: unknown;
  readonly default?: unknown;
  readonly examples?: readonly unknown[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly readOnly?: boolean;
  readonly deprecated?: boolean;
  readonly items?: Schema;
  readonly additionalProperties?: boolean | Schema;
  readonly allOf?: readonly Schema[];
  readonly anyOf?: readonly Schema[];
  readonly oneOf?: readonly Schema[];
}

/** A parameter, or a reference to one. */
export interface Parameter {
  readonly $ref?: string;
  readonly name: string;
  readonly in: 'path' | 'query' | 'header';
  readonly required?: boolean;
  readonly deprecated?: boolean;
  readonly description?: string;
  readonly explode?: boolean;
  readonly schema: Schema;
}

/** A body in one media type. */
interface Media {
  readonly schema?: Schema;
  readonly examples?: Readonly<Record<string, { readonly value?: unknown }>>;
}

/** Bodies, keyed by media type. */
export type Content = Readonly<Record<string, Media>>;

/** A response, or a reference to one. */
export interface Response {
  readonly $ref?: string;
  readonly description: string;
  readonly content?: Content;
}

/** The credentials of which an operation requires one, keyed by the names of their security schemes. */
type Security = readonly Readonly<Record<string, unknown>>[];

/** An operation of the API, or a request that the instance sends. */
export interface DocumentOperation {
  readonly operationId: string;
  readonly summary: string;
  readonly description?: string;
  readonly deprecated?: boolean;
  readonly tags: readonly string[];
  readonly security?: Security;
  readonly parameters?: readonly Parameter[];
  readonly requestBody?: { readonly description?: string; readonly content: Content };
  readonly responses: Readonly<Record<string, Response>>;
}

/** A security scheme. */
export interface SecurityScheme {
  readonly type: string;
  readonly in?: string;
  readonly name?: string;
  readonly description?: string;
}

/** Methods in the order in which the explorer lists operations on the same path. */
export const methods = ['get', 'post', 'put', 'patch', 'delete'] as const;

/** A path's operations, and the parameters that they share. */
export type PathItem = { readonly [Method in (typeof methods)[number]]?: DocumentOperation } & {
  readonly parameters?: readonly Parameter[];
};

/** The parts of an OpenAPI document that the explorer shows. */
export interface OpenApiDocument extends JsonSchema {
  readonly info: {
    readonly title: string;
    readonly version: string;
    readonly summary: string;
    readonly description: string;
    readonly license: JsonSchema;
  };
  readonly security: Security;
  readonly tags: readonly {
    readonly name: string;
    readonly description?: string;
    readonly 'x-displayName'?: string;
  }[];
  readonly paths: Readonly<Record<string, PathItem>>;
  readonly webhooks: Readonly<Record<string, PathItem>>;
  readonly components: {
    readonly schemas: Readonly<Record<string, Schema>>;
    readonly parameters: Readonly<Record<string, Parameter>>;
    readonly responses: Readonly<Record<string, Response>>;
    readonly securitySchemes: Readonly<Record<string, SecurityScheme>>;
  };
}

/** Returns the name at the end of a reference, for example `LeadInput`. */
export const referencedName = (reference: string): string => reference.slice(reference.lastIndexOf('/') + 1);

/** Returns an object of the document, or the object to which it refers. */
export function resolve<T extends { readonly $ref?: string }>(
  value: T,
  shared: Readonly<Record<string, T>>,
): T {
  if (value.$ref === undefined) return value;
  const target = shared[referencedName(value.$ref)];
  if (target === undefined) throw new Error(`${value.$ref} is not in the OpenAPI document`);
  return target;
}

/** A resource in the document. */
export interface DocumentResource {
  readonly name: string;
  readonly description: string;
  /** Name of the schema of a record, for example `Lead`. */
  readonly record: string;
  /** The properties of its records. */
  readonly properties: Readonly<Record<string, Schema>>;
  readonly list: DocumentOperation;
  readonly hasTrash: boolean;
}

/** Returns the document's resources, without their former names. */
export function resourcesIn({
  tags,
  paths,
  components: { schemas },
}: OpenApiDocument): readonly DocumentResource[] {
  return tags.flatMap(({ name, description = '' }) => {
    const list = paths[`${apiPrefix}/${name}`]?.get;
    const listSchema = list?.responses[200]?.content?.['application/json']?.schema;
    if (list === undefined || listSchema === undefined) return [];
    const item = resolve(listSchema, schemas).properties?.data?.items ?? {};
    const { expanded: _, ...properties } = resolve(item, schemas).properties ?? {};
    return {
      name,
      description,
      record: referencedName(item.$ref ?? '').replace(/Projection$/, ''),
      properties,
      list,
      hasTrash: Object.hasOwn(paths, `${apiPrefix}/${name}/{id}/restore`),
    };
  });
}
