// Records and requests generated from the definitions, so that tests cover every field and resource.
import assert from 'node:assert/strict';
import { checkSources } from '../../engine/definition/check-sources.ts';
import type { ResourceDefinition } from '../../engine/definition/definition.ts';
import type { Field } from '../../engine/fields/field.ts';
import { apiPrefix } from '../../engine/http/openapi.ts';
import type { Answer, Instance, Organization } from './instance.ts';
import { type ExactRecord, exactRecord, numberText, objectText } from './reading.ts';
import { sourcesWith } from './sources.ts';

/** The shipped resources. */
export const definitions: readonly ResourceDefinition[] = checkSources(await sourcesWith());

/** Each operation on a resource with its request. `{id}` is a record's ID. */
export const operations = [
  { action: 'list', method: 'GET', one: false, success: 200 },
  { action: 'create', method: 'POST', one: false, success: 201 },
  { action: 'read', method: 'GET', one: true, success: 200 },
  { action: 'update', method: 'PUT', one: true, success: 200 },
  { action: 'update', method: 'PATCH', one: true, success: 200 },
  { action: 'delete', method: 'DELETE', one: true, success: 200 },
] as const;
export type Operation = (typeof operations)[number];

/** Returns whether an operation reads a body. */
export const hasBody = ({ method }: Operation): boolean =>
  method === 'POST' || method === 'PUT' || method === 'PATCH';

/** Returns the path of a resource or a record. */
export const pathOf = ({ name }: Pick<ResourceDefinition, 'name'>, id?: string): string =>
  id === undefined ? `${apiPrefix}/${name}` : `${apiPrefix}/${name}/${id}`;

/** Returns an operation as a `send` request. */
export const requestOf = (operation: Operation, definition: ResourceDefinition, id: string): string =>
  `${operation.method} ${pathOf(definition, operation.one ? id : undefined)}`;

export const writable = ({ fields }: ResourceDefinition): readonly Field[] =>
  fields.filter((field) => !field.readOnly);
export const readOnly = ({ fields }: ResourceDefinition): readonly Field[] =>
  fields.filter((field) => field.readOnly);
export const isStored = ({ type }: Field): boolean => type.columns !== undefined;
/** Returns the stored fields that neither a request nor the server sets. */
export const untouched = (definition: ResourceDefinition): readonly Field[] =>
  readOnly(definition).filter((field) => field.set === undefined && isStored(field));

/** Returns the kind of value in a field from a client's perspective. */
export function kindOf({
  type,
  to,
}: Field): 'string' | 'int32' | 'int64' | 'number' | 'timestamp' | 'reference' {
  if (to !== undefined) return 'reference';
  const format = type.json.format ?? type.json.type;
  if (format === 'date-time') return 'timestamp';
  assert.ok(
    format === 'string' || format === 'int32' || format === 'int64' || format === 'number',
    `${format}`,
  );
  return format;
}

/** Returns every resource, paired with each of its writable fields of this kind. */
export const fieldsOf = (kind: ReturnType<typeof kindOf>) =>
  definitions.flatMap((definition) =>
    writable(definition)
      .filter((field) => kindOf(field) === kind)
      .map((field) => ({ definition, field })),
  );

/** Record IDs by resource name. */
export type Ids = Readonly<Record<string, string>>;

const samples = {
  int32: '-42',
  int64: '9007199254740993',
  number: '12345678901234.56',
  timestamp: '"2026-03-01T09:30:00.25+05:30"',
} as const;

/**
 * Returns a field value other than the default, as JSON text.
 * @param mark prefix of every string
 * @param ids IDs of the records that references point to. Other references are null.
 */
export function sample(field: Field, mark: string, ids: Ids = {}): string {
  const kind = kindOf(field);
  if (kind === 'reference') return ids[field.to ?? ''] ?? 'null';
  return kind === 'string' ? JSON.stringify(`${mark} ${field.name}`) : samples[kind];
}

/** Returns a body with a value for every writable field (see {@link sample}). */
export const fullBody = (definition: ResourceDefinition, mark: string, ids: Ids = {}): string =>
  objectText(writable(definition).map((field) => [field.name, sample(field, mark, ids)]));

/** A created record. */
export interface Made {
  readonly id: string;
  readonly answer: Answer;
  readonly record: ExactRecord;
}

/**
 * Creates a record.
 * @param body JSON text or a value
 */
export async function make(
  { call }: Instance,
  key: string,
  definition: Pick<ResourceDefinition, 'name'>,
  body: unknown = {},
): Promise<Made> {
  const answer = await call(`POST ${pathOf(definition)}`, { key, body });
  assert.equal(answer.status, 201, answer.text);
  const record = exactRecord(answer.text);
  return { id: numberText(record.id), answer, record };
}

/** Two organizations, each with one complete record of every resource, linked within the organization. */
export interface Pair {
  readonly alpha: Organization;
  readonly beta: Organization;
  readonly alphaIds: Ids;
  readonly betaIds: Ids;
}

/** Part of every string in the beta organization's records. */
export const secret = 'secret-of-beta';

export async function twoOrganizations(instance: Instance): Promise<Pair> {
  const alpha = await instance.organization('alpha');
  const beta = await instance.organization('beta');
  return {
    alpha,
    beta,
    alphaIds: await oneOfEach(instance, alpha.key, 'alpha'),
    betaIds: await oneOfEach(instance, beta.key, secret),
  };
}

/** Creates one complete record of every resource. References point to records created earlier. */
export async function oneOfEach(instance: Instance, key: string, mark: string): Promise<Ids> {
  const ids: Record<string, string> = {};
  for (const definition of referredFirst) {
    ids[definition.name] = (await make(instance, key, definition, fullBody(definition, mark, ids))).id;
  }
  return ids;
}

/** Definitions ordered so that referenced resources come first. */
export const referredFirst: readonly ResourceDefinition[] = [...definitions].sort(
  (a, b) => depth(a) - depth(b),
);

function depth({ fields, name }: ResourceDefinition): number {
  const targets = definitions.filter(
    (other) => other.name !== name && fields.some((field) => field.to === other.name),
  );
  return targets.length === 0 ? 0 : 1 + Math.max(...targets.map(depth));
}

/** An ID that no record has. */
export const missing = '987654321987';

/** Returns everything in a response that must be the same for a missing record and another organization's record. */
export const visible = ({ status, headers, text }: Answer) => ({
  status,
  text,
  headers: [...headers].filter(([name]) => name !== 'date'),
});
