// Requests to the API. Numbers keep all of their digits in both directions.
const { createHmac, timingSafeEqual } = require('node:crypto');
const resources = require('./resources.json');

/** @typedef {import('n8n-workflow').IHookFunctions} IHookFunctions */
/** @typedef {import('n8n-workflow').IN8nHttpFullResponse} IN8nHttpFullResponse */
/** @typedef {import('n8n-workflow').IDataObject} IDataObject */
/** @typedef {import('n8n-workflow').JsonObject} JsonObject */
/** @typedef {import('n8n-workflow').IExecuteFunctions} IExecuteFunctions */
/** @typedef {IExecuteFunctions | IHookFunctions} Context */
/** @typedef {'text' | 'integer' | 'decimal' | 'boolean' | 'dateTime' | 'date' | 'ids' | 'json'} Kind */
/**
 * @typedef {object} Resource
 * @property {string[]} formerNames
 * @property {Record<string, Kind>} fields
 * @property {string[]} required
 * @property {Record<string, { parameter: string, kind: Kind }>} filters
 */
/**
 * @typedef {object} ApiRequest
 * @property {'GET' | 'POST' | 'PATCH' | 'DELETE'} [method]
 * @property {string} path
 * @property {unknown} [body]
 * @property {IDataObject} [headers]
 */

const credentialName = '$nameApi';
const prefix = '/api/v1';

/**
 * JSON functions that preserve the digits of numbers. TypeScript's type definitions do not include them yet.
 * @type {{
 *   rawJSON: (text: string) => unknown,
 *   parse: (text: string, revive: (key: string, value: unknown, context: { source?: string }) => unknown) => unknown,
 * }}
 */
const exact = /** @type {never} */ (JSON);

/**
 * Returns whether a JavaScript number has the same value as a number in JSON.
 * @param {string} source
 */
function isExact(source) {
  const digits = source.replace(/[-.]/g, '').replace(/^0+/, '');
  return digits.length <= 15 || (/^-?\d+$/.test(source) && Number.isSafeInteger(Number(source)));
}

/**
 * Parses a response. Numbers that JavaScript would round become strings.
 * @param {string} text
 * @returns {JsonObject}
 */
const parse = (text) =>
  /** @type {JsonObject} */ (
    exact.parse(text, (_, value, { source = '' }) =>
      typeof value === 'number' && !isExact(source) ? source : value,
    )
  );

/**
 * Parses JSON entered by a user. `JSON.stringify` writes its numbers with the same digits.
 * @param {string} text
 */
const parseInput = (text) =>
  exact.parse(text, (_, value, { source = '' }) =>
    typeof value === 'number' ? exact.rawJSON(source) : value,
  );

/** An error response. */
class ResponseError extends Error {
  /**
   * @param {number} status
   * @param {JsonObject} response
   */
  constructor(status, response) {
    super(typeof response.error === 'string' ? response.error : `The server responded with status ${status}`);
    this.status = status;
    this.response = response;
  }

  /** The response's hint, followed by the invalid fields that the message does not already describe. */
  get description() {
    const { hint, fields } = this.response;
    const lines = (Array.isArray(fields) ? fields : []).flatMap((issue) => {
      const { field, message, hint: advice } = /** @type {JsonObject} */ (issue);
      return message === this.message ? [] : [[`${field}: ${message}`, advice].filter(Boolean).join('. ')];
    });
    return [hint, ...lines].filter(Boolean).join('\n');
  }
}

/**
 * Sends a request.
 * @param {Context} context
 * @param {ApiRequest} request
 * @throws {ResponseError} if the response is an error
 */
async function send(context, { method = 'GET', path, body, headers = {} }) {
  const { url } = await context.getCredentials(credentialName);
  const {
    statusCode,
    body: text,
    headers: responseHeaders,
  } = /** @type {IN8nHttpFullResponse} */ (
    await context.helpers.httpRequestWithAuthentication.call(context, credentialName, {
      method,
      url: `${String(url).replace(/\/+$/, '')}${path}`,
      headers: {
        Accept: 'application/json',
        Prefer: 'handling=strict',
        ...(body !== undefined && { 'Content-Type': 'application/json' }),
        ...headers,
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
      encoding: 'text',
      returnFullResponse: true,
      ignoreHttpStatusErrors: true,
    })
  );
  let json;
  try {
    json = parse(String(text));
  } catch {
    json = {};
  }
  if (statusCode >= 300) throw new ResponseError(statusCode, json);
  return { json, headers: responseHeaders };
}

/**
 * Returns a number with the digits that the user entered.
 * @param {unknown} value
 * @param {{ field: string, pattern: RegExp }} context
 */
function numberOf(value, { field, pattern }) {
  const text = String(value).trim();
  const isRounded = typeof value === 'number' && !(Number.isFinite(value) && isExact(text));
  if (isRounded || !pattern.test(text))
    throw new TypeError(`${field}: "${text}" is not an exact number. Enter it as text.`);
  return exact.rawJSON(text);
}

/**
 * Returns a timestamp with a UTC offset. Timestamps without one are in the workflow's time zone.
 * @param {unknown} value
 * @param {string} timeZone
 */
function timestampOf(value, timeZone) {
  const text = value instanceof Date ? value.toISOString() : String(value);
  const [, day, time = '00:00:00'] = /^(\d{4}-\d\d-\d\d)(?:[T ]([\d:.]+))?$/.exec(text) ?? [];
  if (day === undefined) return text;
  const instant = new Date(`${day}T${time}Z`);
  const offset = (/** @type {Date} */ at) =>
    new Intl.DateTimeFormat('en', { timeZone, timeZoneName: 'longOffset' })
      .formatToParts(at)
      .find(({ type }) => type === 'timeZoneName')
      ?.value.slice(3) || 'Z';
  // The offset at the same time in UTC can differ from the offset at the local time.
  const near = offset(instant);
  return `${day}T${time}${offset(new Date(`${day}T${time}${near}`))}`;
}

/**
 * Converts a parameter's value to a value of the API. Empty values of all kinds except text are null.
 * @param {Kind} kind
 * @param {unknown} value
 * @param {{ field: string, timeZone: string }} context
 * @returns {unknown}
 */
function encode(kind, value, context) {
  if (value === null || value === undefined) return null;
  if (Array.isArray(value) && kind !== 'ids' && kind !== 'json')
    return value.map((item) => encode(kind, item, context));
  if (kind === 'text') return String(value);
  if (value === '') return null;
  switch (kind) {
    case 'integer':
      return numberOf(value, { ...context, pattern: /^-?(0|[1-9]\d*)$/ });
    case 'decimal':
      return numberOf(value, { ...context, pattern: /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/ });
    case 'boolean':
      return typeof value === 'string' ? value === 'true' : value;
    case 'dateTime':
      return timestampOf(value, context.timeZone);
    case 'date':
      return String(value).slice(0, 10);
    case 'ids':
      return (Array.isArray(value) ? value : String(value).split(','))
        .filter((id) => String(id).trim() !== '')
        .map((id) => numberOf(id, { ...context, pattern: /^\d+$/ }));
    case 'json':
      return typeof value === 'string' ? parseInput(value) : value;
  }
}

/**
 * Converts the values of a collection to a request body.
 * @param {Resource} resource
 * @param {IDataObject} values
 * @param {string} timeZone
 */
const bodyOf = ({ fields }, values, timeZone) =>
  Object.fromEntries(
    Object.entries(values).map(([field, value]) => {
      const kind = (Object.hasOwn(fields, field) && fields[field]) || 'json';
      return [field, encode(kind, value, { field, timeZone })];
    }),
  );

/**
 * Returns a resource by its current or former name.
 * @param {string} name
 * @returns {{ path: string, resource: Resource }}
 */
function resourceNamed(name) {
  const entries = /** @type {[string, Resource][]} */ (Object.entries(resources));
  const entry = entries.find(([current, { formerNames }]) => current === name || formerNames.includes(name));
  if (entry === undefined) throw new TypeError(`This version of the node has no resource named "${name}".`);
  return { path: `${prefix}/${entry[0]}`, resource: entry[1] };
}

/**
 * Runs the operation selected in a node for an item.
 * @param {IExecuteFunctions} context
 * @param {number} index
 * @returns {Promise<IDataObject[]>}
 */
async function run(context, index) {
  const parameter = (/** @type {string} */ name) => context.getNodeParameter(name, index);
  const collection = (/** @type {string} */ name) =>
    /** @type {IDataObject} */ (context.getNodeParameter(name, index, {}));
  const { path, resource } = resourceNamed(String(parameter('resource')));
  const timeZone = context.getTimezone();
  const recordPath = () => `${path}/${encodeURIComponent(String(parameter('recordId')).trim())}`;
  const newRecord = () => {
    const required = resource.required.map((field) => [
      field,
      context.getNodeParameter(`field_${field}`, index, null),
    ]);
    return bodyOf(resource, { ...Object.fromEntries(required), ...collection('additionalFields') }, timeZone);
  };
  const one = async (/** @type {ApiRequest} */ request) => [
    /** @type {IDataObject} */ ((await send(context, request)).json),
  ];
  const operation = String(parameter('operation'));
  switch (operation) {
    case 'create': {
      const { idempotencyKey } = collection('options');
      const headers = idempotencyKey ? { 'Idempotency-Key': String(idempotencyKey) } : {};
      return one({ method: 'POST', path, body: newRecord(), headers });
    }
    case 'get': {
      const query = String(parametersOf(collection('options')));
      return one({ path: query === '' ? recordPath() : `${recordPath()}?${query}` });
    }
    case 'getAll':
      return list(context, index, { path, resource, timeZone });
    case 'update':
      return one({
        method: 'PATCH',
        path: recordPath(),
        body: bodyOf(resource, collection('updateFields'), timeZone),
      });
    case 'upsert': {
      const body = {
        records: [newRecord()],
        match: String(parameter('match')).split(','),
        on_error: 'continue',
      };
      const { json } = await send(context, { method: 'POST', path: `${path}/batch`, body });
      const [result] = /** @type {[JsonObject & { status: number }]} */ (json.results);
      if (result.status >= 300) throw new ResponseError(result.status, result);
      return [/** @type {IDataObject} */ ({ id: result.id, created: result.status === 201 })];
    }
    case 'delete':
      await send(context, { method: 'DELETE', path: recordPath() });
      return [{ id: String(parameter('recordId')).trim(), deleted: true }];
    case 'restore':
      return one({ method: 'POST', path: `${recordPath()}/restore` });
    default:
      throw new TypeError(`This version of the node has no operation named "${operation}".`);
  }
}

/**
 * Returns query parameters for the options of reads. Empty options are omitted.
 * @param {IDataObject} options
 */
function parametersOf(options) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(options))
    if (String(value) !== '') query.set(name, String(value));
  return query;
}

/**
 * Lists records, page by page.
 * @param {IExecuteFunctions} context
 * @param {number} index
 * @param {{ path: string, resource: Resource, timeZone: string }} target
 */
async function list(context, index, { path, resource, timeZone }) {
  const collection = (/** @type {string} */ name) =>
    /** @type {IDataObject} */ (context.getNodeParameter(name, index, {}));
  const query = parametersOf(collection('options'));
  for (const [name, input] of Object.entries(collection('filters'))) {
    const filter = Object.hasOwn(resource.filters, name) ? resource.filters[name] : undefined;
    const values = filter?.kind === 'ids' ? String(input).split(/ *, */) : [input].flat();
    for (const value of values) {
      const text = filter?.kind === 'dateTime' ? timestampOf(value, timeZone) : String(value);
      query.append(filter?.parameter ?? name, text);
    }
  }
  const custom = /** @type {{ name: string, value: string }[]} */ (collection('customFilters').filter ?? []);
  for (const { name, value } of custom) query.append(`custom.${name}`, value);
  const limit = context.getNodeParameter('returnAll', index, false)
    ? Number.POSITIVE_INFINITY
    : Number(context.getNodeParameter('limit', index, 50));
  /** @type {IDataObject[]} */
  const records = [];
  for (let search = `?${query}`; ; ) {
    const { json, headers } = await send(context, { path: `${path}${search}` });
    records.push(.../** @type {IDataObject[]} */ (json.data));
    const next = /<([^>]+)>; rel="next"/.exec(String(headers.link ?? ''))?.[1];
    if (next === undefined || records.length >= limit) return records.slice(0, limit);
    // Only the query, because the URL can contain another origin, for example behind a proxy.
    search = new URL(next, 'http://localhost').search;
  }
}

/**
 * Returns an error as the output of a node that continues on errors.
 * @param {unknown} error
 * @returns {IDataObject}
 */
const failure = (error) =>
  error instanceof ResponseError
    ? /** @type {IDataObject} */ ({ ...error.response, error: error.message, status: error.status })
    : { error: error instanceof Error ? error.message : String(error) };

/** Maximum age of an event in seconds, as Standard Webhooks recommends. */
const maxAge = 300;

/**
 * Returns whether an event was signed with a subscription's secret within the last five minutes.
 * @param {{ secret: string, headers: Record<string, unknown>, body: Buffer }} event
 */
function isAuthentic({ secret, headers, body }) {
  const { 'webhook-id': id, 'webhook-timestamp': timestamp, 'webhook-signature': signatures } = headers;
  if (!(Math.abs(Date.now() / 1000 - Number(timestamp)) < maxAge)) return false;
  const key = Buffer.from(secret.replace(/^whsec_/, ''), 'base64');
  const expected = createHmac('sha256', key).update(`${id}.${timestamp}.`).update(body).digest();
  return String(signatures)
    .split(' ')
    .filter((signature) => signature.startsWith('v1,'))
    .map((signature) => Buffer.from(signature.slice(3), 'base64'))
    .some((signature) => signature.length === expected.length && timingSafeEqual(signature, expected));
}

module.exports = { ResponseError, failure, isAuthentic, parse, run, send };
