import { humanize } from '../../../engine/fields/index.ts';
import {
  type Content,
  type DocumentOperation,
  methods,
  type OpenApiDocument,
  type Parameter,
  type PathItem,
  resolve,
} from './document.ts';
import { type SchemaRow, schemaRows, typeText } from './schema-rows.ts';

/** A field of a request's form. */
interface ParameterInput {
  /** ID of the form's element. */
  readonly id: string;
  readonly name: string;
  readonly in: Parameter['in'];
  readonly type: string;
  readonly description: string | undefined;
  readonly isRequired: boolean;
  readonly isDeprecated: boolean;
  /** Values to choose from. Absent if any text can be entered. */
  readonly options?: readonly string[];
  /** How several values are sent. Absent if the parameter has a single value. */
  readonly list?: 'repeated' | 'separated by commas';
  /**
   * The initial value: an example if the parameter is required and the operation only reads. Optional parameters are sent only if
   * they are filled in, and writes to an existing record only to the record that the user enters.
   */
  readonly value: string;
  readonly example: string | undefined;
}

/** A body in a media type that the operation accepts. */
interface BodyType {
  readonly type: string;
  readonly example: string;
}

/** A response with a body's fields and an example if it is successful. */
interface ResponseRow {
  readonly status: string;
  readonly isSuccess: boolean;
  readonly description: string;
  readonly example?: string;
  readonly fields?: readonly SchemaRow[];
}

/** The credential with which an operation is called. */
type Credential =
  /** The session of the logged-in user, or an API key. */
  | { readonly kind: 'caller' }
  | { readonly kind: 'none' }
  /** A secret in a header of its own. */
  | {
      readonly kind: 'secret';
      readonly header: string;
      readonly prefix: string;
      readonly description: string;
    };

/** An operation as the explorer shows it. */
interface OperationView {
  readonly id: string;
  readonly method: string;
  readonly isDelete: boolean;
  /** Position of the method's hue in the stylesheet. */
  readonly hue: number;
  readonly path: string;
  readonly summary: string;
  /** The operation's purpose, followed by details. */
  readonly description: string | undefined;
  readonly isDeprecated: boolean;
  /** Whether the instance sends the request. It has no form. */
  readonly isSent: boolean;
  readonly required: readonly ParameterInput[];
  readonly optional: readonly ParameterInput[];
  readonly credential: Credential;
  readonly body?: {
    readonly description: string | undefined;
    readonly types: readonly BodyType[];
    /** Whether the example is the initial value. It is not if it identifies existing records that the request would change. */
    readonly isPrefilled: boolean;
    readonly fields: readonly SchemaRow[];
  };
  /** Media types of the successful response, if the caller can choose between several. */
  readonly accepts: readonly string[];
  readonly responses: readonly ResponseRow[];
}

/** A page of the explorer: the operations with the same tag. */
export interface ExplorerSection {
  readonly name: string;
  readonly title: string;
  readonly description: string | undefined;
  readonly isResource: boolean;
  readonly operations: readonly OperationView[];
}

/** Hues of the methods' badges. */
const hues: Readonly<Record<(typeof methods)[number], number>> = {
  get: 1,
  post: 6,
  put: 5,
  patch: 5,
  delete: 7,
};

/** The response that never ends, so the explorer does not offer it. */
const streamType = 'text/event-stream';

const asText = (value: unknown): string =>
  typeof value === 'string' ? value : JSON.stringify(value, undefined, 2);

/** Returns the first example of a body, or undefined if it has none. */
function exampleIn(content: Content, type: string): string | undefined {
  const [example] = Object.values(content[type]?.examples ?? {});
  return example?.value === undefined ? undefined : asText(example.value);
}

/** Returns a parameter as a field of the operation's form. */
function inputOf(
  parameter: Parameter,
  { id: operation, isRead }: { readonly id: string; readonly isRead: boolean },
  { components }: OpenApiDocument,
): ParameterInput {
  const { name, required = false, deprecated = false, explode = true, description } = parameter;
  const schema = resolve(parameter.schema, components.schemas);
  const [example] = schema.examples ?? [];
  const options = schema.enum?.map(String) ?? (schema.type === 'boolean' ? ['true', 'false'] : undefined);
  return {
    id: `${operation}-${parameter.in}-${name}`,
    name,
    in: parameter.in,
    type: typeText(schema, components.schemas),
    description,
    isRequired: required,
    isDeprecated: deprecated,
    ...(options !== undefined && { options }),
    ...(schema.type === 'array' && { list: explode ? 'repeated' : 'separated by commas' }),
    value: isRead && required && example !== undefined ? asText(example) : '',
    example: example === undefined ? undefined : asText(example),
  };
}

/** Returns the credential for which the explorer asks. */
function credentialOf({ security }: DocumentOperation, document: OpenApiDocument): Credential {
  const names = (security ?? document.security).flatMap((schemes) => Object.keys(schemes));
  const [first] = names;
  if (first === undefined) return { kind: 'none' };
  if (names.some((name) => ['apiKey', 'token', 'session'].includes(name))) return { kind: 'caller' };
  const scheme = document.components.securitySchemes[first];
  const isBearer = scheme?.type === 'http';
  return {
    kind: 'secret',
    header: isBearer ? 'Authorization' : (scheme?.name ?? ''),
    prefix: isBearer ? 'Bearer ' : '',
    description: scheme?.description ?? '',
  };
}

/** Returns an operation's responses. Only successful responses have their own bodies; errors share one. */
const responseRows = (
  { responses }: DocumentOperation,
  { components }: OpenApiDocument,
): readonly ResponseRow[] =>
  Object.entries(responses).map(([status, response]) => {
    const { description, content = {} } = resolve(response, components.responses);
    const isSuccess = status.startsWith('2');
    if (!isSuccess) return { status, isSuccess, description };
    const [type = '', media] = Object.entries(content)[0] ?? [];
    const example = exampleIn(content, type);
    const fields = media?.schema === undefined ? [] : schemaRows(media.schema, components.schemas);
    return {
      status,
      isSuccess,
      description,
      ...(example !== undefined && { example }),
      ...(fields.length > 0 && { fields }),
    };
  });

/** Returns the position of an optional parameter: parameters that every operation accepts follow its own parameters. */
const rankOf = ({ in: location, name }: ParameterInput): number =>
  location === 'header' ? 2 : name === 'org' ? 1 : 0;

/** An operation in the document. */
interface OperationSource {
  readonly item: PathItem;
  readonly operation: DocumentOperation;
  readonly document: OpenApiDocument;
  readonly isSent: boolean;
}

/** Returns an operation of a path as the explorer shows it. */
function operationView(
  path: string,
  method: (typeof methods)[number],
  { item, operation, document, isSent }: OperationSource,
): OperationView {
  const { operationId: id, summary, description, deprecated = false, requestBody } = operation;
  const { schemas, parameters } = document.components;
  const inputs = [...(item.parameters ?? []), ...(operation.parameters ?? [])].map((parameter) =>
    inputOf(resolve(parameter, parameters), { id, isRead: method === 'get' }, document),
  );
  const [success] = Object.entries(operation.responses).filter(([status]) => status.startsWith('2'));
  const accepts = Object.keys(success?.[1].content ?? {}).filter((type) => type !== streamType);
  const types = Object.keys(requestBody?.content ?? {});
  const [mainType = ''] = types;
  const schema = requestBody?.content[mainType]?.schema;
  return {
    id,
    method: method.toUpperCase(),
    isDelete: method === 'delete',
    hue: hues[method],
    path,
    summary,
    description,
    isDeprecated: deprecated,
    isSent,
    required: inputs.filter(({ isRequired }) => isRequired),
    optional: inputs.filter(({ isRequired }) => !isRequired).sort((a, b) => rankOf(a) - rankOf(b)),
    credential: credentialOf(operation, document),
    ...(requestBody !== undefined && {
      body: {
        description: requestBody.description,
        isPrefilled: method === 'post' || inputs.some(({ in: location }) => location === 'path'),
        types: types.map((type) => ({ type, example: exampleIn(requestBody.content, type) ?? '{}' })),
        fields: schema === undefined ? [] : schemaRows(schema, schemas),
      },
    }),
    accepts: accepts.length > 1 ? accepts : [],
    responses: responseRows(operation, document),
  };
}

/**
 * Returns the explorer's pages: one per tag of the OpenAPI document, with its operations in the document's order. Operations
 * on a resource's former path come last.
 * @param resources names of the resources
 */
export function sectionsOf(
  document: OpenApiDocument,
  resources: readonly string[],
): readonly ExplorerSection[] {
  const views = (paths: OpenApiDocument['paths'], isSent: boolean) =>
    Object.entries(paths).flatMap(([path, item]) =>
      methods.flatMap((method) => {
        const operation = item[method];
        if (operation === undefined) return [];
        const source = { item, operation, document, isSent };
        return [{ tags: operation.tags, view: operationView(path, method, source) }];
      }),
    );
  const all = [...views(document.paths, false), ...views(document.webhooks, true)];
  return document.tags.map(({ name, description, 'x-displayName': title = humanize(name) }) => ({
    name,
    title,
    description,
    isResource: resources.includes(name),
    operations: all
      .filter(({ tags }) => tags.includes(name))
      .map(({ view }) => view)
      .sort((a, b) => Number(a.isDeprecated) - Number(b.isDeprecated)),
  }));
}
