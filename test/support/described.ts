// Checks every response that a test receives against the API description. The runner collects the responses
// that occurred.
import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Ajv2020, type Options, type ValidateFunction } from 'ajv/dist/2020.js';
import type { Config } from '../../app/config.ts';
import { describeInstance } from '../../app/serve/build.ts';
import type { Resource } from '../../engine/compile/compile.ts';
import { fieldTypes } from '../../engine/fields/field-types.ts';
import type { FieldType } from '../../engine/fields/type.ts';

type Json = Readonly<Record<string, unknown>>;
const object = (value: unknown): Json => (value ?? {}) as Json;

/** The described parts of a response. */
interface Response {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
}

/** The service behind a URL. */
interface Served {
  /** Identical for identical descriptions. */
  readonly key: string;
  /** Whether this is the shipped API, which the tests must cover completely. */
  readonly shipped: boolean;
  readonly config: Config;
  readonly resources: readonly Resource[];
}

/** HTTP's own headers and the headers of every response, which operations do not describe. */
const transport =
  /^(access-control-.*|cache-control|connection|content-encoding|content-length|content-type|date|keep-alive|transfer-encoding|vary|x-content-type-options|accept-patch)$/;

const served = new Map<string, Served>();
const made = new Map<string, Promise<Description>>();
/** Statuses and codes described by the shipped API, and those that occurred. */
const described = new Set<string>();
const seen = new Set<string>();

/** Checks responses from this URL against the service's description. */
export function describe(url: string, service: Served): void {
  served.set(url, service);
}

/** Checks responses from this URL against the description for another URL. */
export function describeLike(url: string, other: string): void {
  const service = served.get(other);
  if (service !== undefined) served.set(url, service);
}

/** Stops checking responses from this URL, for example because the test throws undescribed errors. */
export const forgetDescription = (url: string): boolean => served.delete(url);

/** Returns the description of the service at a URL. */
export function descriptionOf(url: string): Promise<Description> {
  const service = served.get(url);
  assert.ok(service, url);
  const known = made.get(service.key) ?? describedBy(service);
  made.set(service.key, known);
  return known;
}

/** Fails if a response does not match its description. */
export async function assertDescribed(
  url: string,
  method: string,
  path: string,
  response: Response,
): Promise<void> {
  if (!served.has(url) || !/^\/(?:(?:api|auth|webhooks)\/|events\b)/.test(path)) return;
  const description = await descriptionOf(url);
  const [place = '', query = ''] = path.split('?');
  // The body of a query can choose fields, too.
  const isWhole = new URLSearchParams(query).get('fields') === null && !place.endsWith('/query');
  description.check(method, place, response, isWhole);
}

/** Resources share their operations, so a response from one of them counts for all. */
const keyOf = (method: string, template: string, status: string | number) =>
  `${method.toUpperCase()} ${template.replace(/^(\/api\/v1\/)\w+/, '$1R')} ${status}`;

/** A description that can check responses. */
export class Description {
  readonly document: Json;
  // The linters validate the schemas.
  readonly #ajv = ajvFor({ validateSchema: false, meta: false });
  readonly #validators = new Map<string, ValidateFunction>();
  readonly #paths: readonly (readonly [template: string, pattern: RegExp, item: Json])[];

  constructor(document: Json) {
    this.document = document;
    const { schemas } = object(document.components);
    this.#ajv.addSchema({ $id: 'api', components: { schemas: inAjv(schemas) } });
    this.#ajv.addSchema({
      $id: 'whole',
      components: { schemas: inAjv(withWholeRecords(object(schemas)), 'whole') },
    });
    this.#paths = Object.entries(object(document.paths))
      // Literal paths precede templates that would match them too.
      .sort(([a], [b]) => Number(a.includes('{')) - Number(b.includes('{')))
      .map(([template, item]) => [
        template,
        new RegExp(`^${template.replace(/\{\w+\}/g, '[^/]*')}$`),
        object(item),
      ]);
  }

  /** Resolves a part of the document that can be a reference. */
  resolved(part: unknown): Json {
    const { $ref } = object(part);
    if (typeof $ref !== 'string') return object(part);
    return this.resolved(
      $ref
        .slice(2)
        .split('/')
        .reduce((found, name) => object(found)[name] as Json, this.document),
    );
  }

  /** Returns every operation. */
  operations(): readonly { readonly template: string; readonly method: string; readonly operation: Json }[] {
    return this.#paths.flatMap(([template, , item]) =>
      Object.entries(item)
        .filter(([, operation]) => 'responses' in object(operation))
        .map(([method, operation]) => ({ template, method, operation: object(operation) })),
    );
  }

  /** Returns the described responses in the runner's notation. */
  all(): readonly string[] {
    return this.operations().flatMap(({ template, method, operation }) =>
      Object.entries(object(operation.responses)).flatMap(([status, response]) => [
        keyOf(method, template, status),
        ...Object.keys(this.#errorsOf(this.resolved(response))).map((code) => `${status} ${code}`),
      ]),
    );
  }

  /** Returns the examples of an error response by error code. */
  #errorsOf({ content }: Json): Json {
    const { schema, examples } = object(object(content)['application/json']);
    return object(schema).$ref === '#/components/schemas/Error' ? object(examples) : {};
  }

  /**
   * Checks a response.
   * @param path without query parameters
   * @param isWhole whether records must be complete because the request did not choose fields
   * @throws AssertionError if the response does not match the description
   */
  check(method: string, path: string, response: Response, isWhole = false): void {
    const [template, , item] = this.#paths.find(([, pattern]) => pattern.test(path)) ?? [];
    if (template === undefined || item === undefined) return;
    const { status, headers, text } = response;
    const known = Object.keys(item).filter((name) => 'responses' in object(item[name]));
    // HEAD is described in prose: like GET, without a body.
    const isHead = method === 'HEAD' && known.includes('get');
    const name = isHead ? 'get' : method.toLowerCase();
    if (!known.includes(name)) {
      // Other methods receive 405, which is described for the path's methods.
      if (status !== 405) return;
      seen.add('405 method_not_allowed');
      for (const other of known) seen.add(keyOf(other, template, 405));
      return;
    }
    const place = `${method} ${template} ${status}`;
    const found = object(object(item[name]).responses)[status];
    assert.ok(found !== undefined, `${place} is not described: ${text.slice(0, 200)}`);
    const described = this.resolved(found);
    this.#checkHeaders(place, object(described.headers), headers);
    if (!isHead) seen.add(keyOf(method, template, status));
    const contents = object(described.content);
    if (Object.keys(contents).length === 0 || isHead) {
      assert.equal(text, '', `${place} has a body`);
      return;
    }
    const type = (headers.get('content-type') ?? '').split(';')[0] ?? '';
    assert.ok(Object.hasOwn(contents, type), `${place} has an undescribed Content-Type: ${type}`);
    if (type !== 'application/json') return;
    const body: unknown = JSON.parse(text);
    const { schema } = object(contents[type]);
    const validate = this.#validator(place, schema, isWhole ? 'whole' : 'api');
    validate(body);
    const wrong = validate.errors ?? [];
    assert.deepEqual(wrong, [], `${place}: ${this.#ajv.errorsText(wrong)} in ${text.slice(0, 300)}`);
    const errors = this.#errorsOf(described);
    if (Object.keys(errors).length === 0) return;
    const { code } = object(body);
    assert.ok(Object.hasOwn(errors, String(code)), `${place} has an undescribed code: ${code}`);
    seen.add(`${status} ${code}`);
  }

  /**
   * Returns the validator for a response's schema.
   * @param of the set of components that the schema refers to
   */
  #validator(place: string, schema: unknown, of: 'api' | 'whole'): ValidateFunction {
    const key = `${of} ${place}`;
    const known = this.#validators.get(key);
    if (known !== undefined) return known;
    const validate = this.#ajv.compile(inAjv(schema, of) as object);
    this.#validators.set(key, validate);
    return validate;
  }

  #checkHeaders(place: string, described: Json, headers: Headers): void {
    const names = Object.keys(described);
    for (const name of names) {
      if (this.resolved(described[name]).required === true)
        assert.ok(headers.has(name), `${place} lacks the header ${name}`);
    }
    const known = names.map((name) => name.toLowerCase());
    for (const [name] of headers) {
      assert.ok(known.includes(name) || transport.test(name), `${place} has an undescribed header: ${name}`);
    }
  }
}

/** Compiles the description of a service. */
async function describedBy({ config, resources, shipped }: Served): Promise<Description> {
  const made = new Description(object(await describeInstance({ config, resources })));
  if (shipped) for (const each of made.all()) described.add(each);
  return made;
}

/** Returns an Ajv that supports the formats and keywords in the description, independently of the engine. */
export function ajvFor(options: Options = {}): Ajv2020 {
  // Decimals can exceed the range of JavaScript numbers. They are then parsed as Infinity.
  const ajv = new Ajv2020({ strict: true, strictNumbers: false, allowUnionTypes: true, ...options });
  ajv.addVocabulary(['components', 'x-extensible-enum', 'example']);
  const dateTime =
    /^\d{4}-(0\d|1[0-2])-([0-2]\d|3[01])T([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,6})?(Z|[+-]\d\d:\d\d)$/;
  ajv.addFormat('date-time', dateTime);
  ajv.addFormat('date', /^\d{4}-(0\d|1[0-2])-([0-2]\d|3[01])$/);
  ajv.addFormat('password', true);
  ajv.addFormat('uri-reference', (text: string) => URL.canParse(text, 'http://example.com'));
  const within = (bits: number) => ({
    type: 'number' as const,
    validate: (value: number) => Number.isInteger(value) && Math.abs(value) <= 2 ** bits,
  });
  ajv.addFormat('int32', within(31));
  ajv.addFormat('int64', within(63));
  // Values of other field types are checked by their contract test.
  for (const { json } of Object.values<FieldType>(fieldTypes)) {
    if (json.format !== undefined && !Object.hasOwn(ajv.formats, String(json.format)))
      ajv.addFormat(String(json.format), true);
  }
  for (const name of ['double', 'decimal']) ajv.addFormat(name, { type: 'number', validate: () => true });
  return ajv;
}

/**
 * Returns a part of the document with its references rewritten for Ajv.
 * @param id the document's ID in Ajv
 */
export const inAjv = (part: unknown, id = 'api'): unknown =>
  JSON.parse(JSON.stringify(part).replaceAll('"$ref":"#/', `"$ref":"${id}#/`));

/** Makes all fields of a projection required, because a request without `fields` returns every field. */
const withWholeRecords = (schemas: Json): Json =>
  Object.fromEntries(
    Object.entries(schemas).map(([name, schema]) => {
      const record = object(schemas[/^(.+)Projection$/.exec(name)?.[1] ?? '']);
      return [name, 'required' in record ? { ...object(schema), required: record.required } : schema];
    }),
  );

// The runner reads the responses recorded by each file.
const folder = process.env.TEST_TEMPLATES;
if (folder !== undefined) {
  process.once('exit', () => {
    if (described.size === 0) return;
    mkdirSync(join(folder, 'seen'), { recursive: true });
    const file = join(folder, 'seen', `${process.pid}.json`);
    writeFileSync(file, JSON.stringify({ described: [...described], seen: [...seen] }));
  });
}
