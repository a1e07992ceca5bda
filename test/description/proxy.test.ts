// The description in Prism, a validating proxy: for every parameter of every operation, for every field of every body and
// for every format, a request and its response match the description.
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { type Description, descriptionOf } from '../support/described.ts';
import { drivers, type Instance, type Organization, startInstance } from '../support/instance.ts';
import { exactRecord, numberText } from '../support/reading.ts';

type Json = Readonly<Record<string, unknown>>;
const object = (value: unknown): Json => (value ?? {}) as Json;
const list = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);

const clients = join(import.meta.dirname, '../clients');
const installed = existsSync(join(clients, 'node_modules'));

/** A difference between a request or response and the description. */
interface Violation {
  readonly location: readonly string[];
  readonly severity: string;
  readonly message: string;
}

/** A request to send through the proxy. */
interface ProxiedRequest {
  readonly method: string;
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: unknown;
  /** Whether the request violates the description on purpose, so that only its response has to match. */
  readonly isInvalid?: true;
}

/** A running proxy; see test/clients/proxy.ts. */
interface Proxied {
  readonly url: string;
  readonly close: () => Promise<void>;
}

const skip = !installed && 'needs npm ci --prefix test/clients';
describe('the description in a validating proxy', { skip }, () => {
  let instance: Instance;
  let organization: Organization;
  let description: Description;
  let proxy: Proxied;
  let startProxy: (document: object, upstream: string) => Promise<Proxied>;
  before(async () => {
    instance = await startInstance(drivers.at(-1) ?? 'postgresql');
    organization = await instance.organization('alpha');
    description = await descriptionOf(instance.url);
    ({ startProxy } = (await import(pathToFileURL(join(clients, 'proxy.ts')).href)) as {
      readonly startProxy: typeof startProxy;
    });
    proxy = await startProxy(description.document, instance.url);
  });
  after(async () => {
    await proxy.close();
    await instance.close();
  });

  /** Number of requests sent through the proxy. */
  let sent = 0;
  /** Number of violations that the proxy found in requests that are invalid on purpose. */
  let noticed = 0;
  /** Sends a request through the proxy. @returns the response, whose violations have been checked */
  async function send({ method, path, headers = {}, body, isInvalid }: ProxiedRequest): Promise<Response> {
    sent++;
    const isText = typeof body === 'string';
    const response = await fetch(`${proxy.url}${path}`, {
      method,
      headers: {
        authorization: `Bearer ${organization.key}`,
        ...(body !== undefined && !isText && { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body !== undefined && { body: isText ? body : JSON.stringify(body) }),
    });
    const violations = JSON.parse(response.headers.get('sl-violations') ?? '[]') as readonly Violation[];
    const [wrongRequests, wrongResponses] = ['request', 'response'].map((side) =>
      violations.filter(({ location: [part] }) => part === side),
    );
    const context = `${method} ${path} ${JSON.stringify(body)} → ${response.status}`;
    assert.deepEqual(wrongResponses, [], context);
    if (isInvalid === true) noticed += wrongRequests?.length ?? 0;
    else assert.deepEqual(wrongRequests, [], context);
    return response;
  }

  /** Returns a value that a schema allows, preferring its examples. */
  function sampleOf(part: unknown): unknown {
    const schema = description.resolved(part);
    const [example] = list(schema.examples);
    if (example !== undefined) return example;
    if (schema.default !== undefined && schema.default !== null && schema.default !== '')
      return schema.default;
    const [first] = list(schema.enum);
    if (first !== undefined) return first;
    if (schema.const !== undefined) return schema.const;
    const [alternative] = [...list(schema.oneOf), ...list(schema.anyOf)];
    if (alternative !== undefined) return sampleOf(alternative);
    const type = [schema.type].flat().find((name) => name !== 'null');
    switch (type) {
      case 'array':
        return [sampleOf(schema.items)];
      case 'integer':
      case 'number':
        return 1;
      case 'boolean':
        return true;
      case 'object':
        return {};
      default:
        return sampleText(schema);
    }
  }

  /** Returns the query that contains a parameter with a sample value. */
  function queryOf(parameter: Json): URLSearchParams {
    const values = [sampleOf(parameter.schema)].flat();
    const isJoined = parameter.explode === false;
    const texts = isJoined ? [values.join(',')] : values.map(String);
    return new URLSearchParams(texts.map((text): [string, string] => [String(parameter.name), text]));
  }

  /** Creates a record from the description's example, without references. @returns its ID */
  async function createRecord(resource: string): Promise<string> {
    const response = await send({ method: 'POST', path: `/api/v1/${resource}`, body: exampleOf(resource) });
    assert.equal(response.status, 201);
    return numberText(exactRecord(await response.text()).id);
  }

  /** Returns the operations of a resource's path. */
  const operation = (path: string, method: string): Json =>
    object(object(object(description.document.paths)[path])[method]);

  /** Returns an operation's body of a type: its schema and its first example. */
  function bodyOf(path: string, method: string, type = 'application/json') {
    const { content } = object(operation(path, method).requestBody);
    const { schema, examples } = object(object(content)[type]);
    const [example] = Object.values(object(examples));
    return { schema: description.resolved(schema), example: object(example).value };
  }

  /** Returns the fields of a new record. */
  const fieldsOf = (resource: string): Json =>
    object(bodyOf(`/api/v1/${resource}`, 'post').schema.properties);

  /** Returns the description's example of a new record, without references to other records. */
  const exampleOf = (resource: string): Json =>
    Object.fromEntries(
      Object.entries(object(bodyOf(`/api/v1/${resource}`, 'post').example)).filter(
        ([name]) => !name.endsWith('_id'),
      ),
    );

  test('matches for every parameter of every operation that reads', async () => {
    const { paths } = description.document;
    for (const [template, item] of Object.entries(object(paths))) {
      const get = object(object(item).get);
      const resource = /^\/api\/v1\/(\w+)/.exec(template)?.[1];
      if (Object.keys(get).length === 0 || (/\{/.test(template) && resource === undefined)) continue;
      const id = resource === undefined ? '' : await createRecord(resource);
      const path = template.replace('{id}', id);
      const needed = list(get.parameters)
        .map((parameter) => description.resolved(parameter))
        .filter(({ required, in: location }) => required === true && location === 'query');
      const base = new URLSearchParams(needed.flatMap((parameter) => [...queryOf(parameter)]));
      for (const part of list(get.parameters)) {
        const parameter = description.resolved(part);
        const name = String(parameter.name);
        if (['cursor', 'org', 'wait', 'after'].includes(name) || parameter.in === 'path') continue;
        if (parameter.in === 'header') {
          await send({
            method: 'GET',
            path: `${path}?${base}`,
            headers: { [name]: String(sampleOf(parameter.schema)) },
          });
          continue;
        }
        const query = new URLSearchParams([...base].filter(([key]) => key !== name));
        for (const [key, value] of queryOf(parameter)) query.append(key, value);
        await send({ method: 'GET', path: `${path}?${query}` });
      }
    }
  });

  test('matches for every field of every body', async () => {
    for (const { name } of instance.resources) {
      const path = `/api/v1/${name}`;
      const id = await createRecord(name);
      for (const [field, schema] of Object.entries(fieldsOf(name))) {
        const value = field.endsWith('_id') ? null : sampleOf(schema);
        const body = { ...exampleOf(name), [field]: value };
        await send({ method: 'POST', path, body });
        await send({ method: 'PUT', path: `${path}/${id}`, body });
        await send({ method: 'PATCH', path: `${path}/${id}`, body: { [field]: value } });
        await send({
          method: 'PATCH',
          path: `${path}/${id}`,
          body: { [field]: { wrong: true } },
          isInvalid: true,
        });
      }
    }
  });

  test('matches for batches, upserts, imports, exports, conditions and removals', async () => {
    for (const { name } of instance.resources) {
      const path = `/api/v1/${name}`;
      const record = exampleOf(name);
      await send({ method: 'POST', path: `${path}/batch`, body: { records: [record, record] } });
      await send({
        method: 'POST',
        path: `${path}/batch`,
        body: { records: [record, { [Object.keys(record)[0] ?? '']: 7 }], on_error: 'continue' },
        isInvalid: true,
      });
      const [first, second, third] = [
        await createRecord(name),
        await createRecord(name),
        await createRecord(name),
      ];
      const ids = [Number(first), Number(second)];
      await send({
        method: 'PATCH',
        path: `${path}/batch`,
        body: { records: ids.map((id) => ({ id, ...record })) },
      });
      for (const type of ['text/csv', 'application/x-ndjson'])
        await send({ method: 'GET', path, headers: { accept: type } });
      const lines = `${JSON.stringify(record)}\n`;
      for (const query of ['', '?dry_run=true', '?on_error=continue'])
        for (const [type, text] of [
          ['application/x-ndjson', lines],
          ['text/csv', String(bodyOf(`${path}/import`, 'post', 'text/csv').example)],
        ] as const)
          await send({
            method: 'POST',
            path: `${path}/import${query}`,
            headers: { 'content-type': type },
            body: text,
          });
      const { headers } = await send({ method: 'GET', path: `${path}/${first}` });
      const tag = headers.get('etag') ?? '';
      assert.equal(
        (await send({ method: 'GET', path: `${path}/${first}`, headers: { 'if-none-match': tag } })).status,
        304,
      );
      await send({ method: 'PUT', path: `${path}/${first}`, headers: { 'if-match': tag }, body: record });
      await send({
        method: 'PATCH',
        path: `${path}/${first}`,
        headers: { 'if-match': '"old"' },
        body: record,
      });
      for (const repeat of [1, 2])
        await send({
          method: 'POST',
          path,
          headers: { 'idempotency-key': `${name}-1` },
          body: { ...record, ...(repeat === 1 ? {} : record) },
        });
      for (const step of ['merge', 'unmerge', 'unmerge', 'merge'])
        await send({ method: 'POST', path: `${path}/${first}/${step}`, body: { from: Number(third) } });
      await send({ method: 'DELETE', path: `${path}/${first}` });
      await send({ method: 'DELETE', path: `${path}/batch`, body: { ids: [ids[1]] } });
      for (const [method, suffix] of [
        ['GET', first],
        ['GET', `${first}/history`],
        ['DELETE', first],
        ['GET', 'x'],
      ] as const)
        await send({ method, path: `${path}/${suffix}`, ...(suffix === 'x' && { isInvalid: true }) });
      for (const method of ['GET', 'POST'])
        await send({
          method,
          path,
          headers: { authorization: 'Bearer wrong' },
          ...(method === 'POST' && { body: record }),
        });
    }
  });

  test('matches for errors in every parameter that accepts only some values', async () => {
    for (const [path, item] of Object.entries(object(description.document.paths))) {
      if (!/^\/api\/v1\/\w+(?:\/aggregate)?$/.test(path)) continue;
      for (const part of list(object(object(item).get).parameters)) {
        const parameter = description.resolved(part);
        const { items = parameter.schema } = description.resolved(parameter.schema);
        const schema = description.resolved(items);
        if (
          parameter.in !== 'query' ||
          (schema.enum === undefined && schema.type === 'string' && schema.format === undefined)
        )
          continue;
        const query = new URLSearchParams([[String(parameter.name), '\u00bf']]);
        await send({ method: 'GET', path: `${path}?${query}`, isInvalid: true });
      }
    }
  });

  test('are more than 900 requests, and a wrong description would be noticed', async () => {
    assert.ok(sent > 900, String(sent));
    assert.ok(noticed > 100, String(noticed));
    const wrong = structuredClone(description.document) as {
      components: { schemas: Record<string, { required?: string[] }> };
    };
    for (const schema of Object.values(wrong.components.schemas)) schema.required = ['absent'];
    const other = await startProxy(wrong, instance.url);
    try {
      const response = await fetch(`${other.url}/api/v1/${instance.resources[0]?.name}`, {
        headers: { authorization: `Bearer ${organization.key}` },
      });
      assert.match(response.headers.get('sl-violations') ?? '', /absent/);
    } finally {
      await other.close();
    }
  });
});

/** Returns a text that a schema's format allows. */
function sampleText({ format, minLength }: Json): string {
  const texts: Readonly<Record<string, string>> = {
    'date-time': '2026-03-01T12:00:00Z',
    date: '2026-03-01',
    email: 'ada@example.com',
    uri: 'https://example.com',
  };
  return texts[String(format)] ?? 'text'.padEnd(Number(minLength ?? 0), '.');
}
