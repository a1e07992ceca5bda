import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parse } from 'yaml';
import { type Resource, type Sample, sortByReferences } from '../../../engine/compile/index.ts';
import { type Database, withAdvisoryLock } from '../../../engine/database/index.ts';
import { type AuditConfig, commandLine } from '../../../engine/effects/index.ts';
import { fileReason, HttpError, UserError } from '../../../engine/errors.ts';
import { isDate, isRecordReference } from '../../../engine/fields/index.ts';
import { type Caller, everyGrant, insertRecord, type Principal } from '../../../engine/records/index.ts';
import { runForId, type TableRows, type Tables } from '../../../engine/tables/index.ts';
import { createKey, type KeyConfig } from '../../access/api-keys/index.ts';
import { createUser, generatePassword } from '../../access/identity/index.ts';
import { profileId } from '../../access/profiles/index.ts';
import { createOrganization } from '../../tenants/organizations/index.ts';

/** Details of the demo organization created when the instance first starts. Shown only once. */
export interface Demo {
  readonly organization: string;
  readonly email: string;
  readonly password: string;
  readonly key: string;
}

/** A file of sample records (samples/*.yaml). */
interface Samples {
  /** Date that represents today. Times in the file are shifted by whole days accordingly. */
  readonly as_of: string;
  readonly records: readonly Sample[];
}

export const demo = { slug: 'demo', name: 'Demo', email: 'admin@demo.example', key: 'First key' } as const;
/**
 * Advisory lock key. The lock ensures that if several nodes start on an empty database, only one of them
 * creates the organization.
 */
const demoLock = 7_263_140_563n;
const dayMs = 86_400_000;

/**
 * Creates the organization `demo` with sample records, an administrator and an API key, all in one transaction.
 * @returns undefined if the database contains or once contained an organization
 */
export function createDemo(
  database: Database,
  config: AuditConfig & KeyConfig & { readonly samples: string },
  resources: readonly Resource[],
): Promise<Demo | undefined> {
  return withAdvisoryLock(database.orm, demoLock, async (em) => {
    const tables: Tables = em.getKysely<TableRows>();
    // Former slugs are kept after an organization is deleted.
    const existing = await tables
      .selectFrom('crm_organizations')
      .select('slug')
      .unionAll(tables.selectFrom('crm_former_slugs').select('slug'))
      .limit(1)
      .executeTakeFirst();
    if (existing !== undefined) return undefined;

    const actor = commandLine(config);
    const organization = await createOrganization(tables, actor, demo.slug, demo.name);
    const profile = await profileId(tables, organization, 'administrator');
    const password = generatePassword();
    const user = await createUser(tables, actor, {
      email: demo.email,
      organization,
      profile,
      password: () => password,
    });
    const { plaintext } = await createKey(tables, actor, config.keyPrefix, {
      organization,
      profile,
      name: demo.key,
      user,
      onBehalfOf: null,
      expiresAt: null,
    });
    await insertSamples(tables, config.samples, resources, {
      kind: 'command',
      actor: null,
      name: null,
      organization,
      user,
      grants: everyGrant,
    });
    return { organization: demo.slug, email: demo.email, password, key: plaintext };
  });
}

/** Inserts sample records for every resource that has a sample file. Does not run hooks. */
async function insertSamples(
  tables: Tables,
  folder: string,
  resources: readonly Resource[],
  principal: Principal,
): Promise<void> {
  const ids = new Map<string, string[]>();
  for (const resource of sortByReferences(resources)) {
    const samples = await readSamples(join(folder, `${resource.name}.yaml`));
    const createdIds: string[] = [];
    ids.set(resource.name, createdIds);
    if (samples === undefined) continue;
    const days = Math.floor((Date.now() - Date.parse(`${samples.as_of}T00:00:00Z`)) / dayMs);
    for (const [index, sample] of samples.records.entries()) {
      const record = resolve(resource, sample, ids, days);
      const position = `${samples.file}, record ${index + 1}`;
      createdIds.push(await create(tables, resource, { principal, requestId: '' }, record, position));
    }
  }
}

/**
 * Creates a record from a sample.
 * @throws UserError with the sample's position if the sample is not a valid record
 */
async function create(
  tables: Tables,
  resource: Resource,
  caller: Caller,
  record: Readonly<Record<string, unknown>>,
  position: string,
): Promise<string> {
  // Read-only fields, for example the creation time and values from other systems, are passed separately.
  const readOnly = resource.definition.fields.filter(({ name, readOnly }) => readOnly && name in record);
  const values = Object.fromEntries(readOnly.map(({ name }) => [name, record[name]]));
  try {
    return await insertRecord(resource, caller, record, values, (statement) => runForId(tables, statement));
  } catch (cause) {
    if (!(cause instanceof HttpError)) throw cause;
    throw new UserError(`${position}: ${cause.message}`, { cause });
  }
}

/**
 * Returns each resource's first sample, as an example for the documentation. Omits resources whose sample
 * file is missing or invalid.
 */
export async function firstSamples(
  folder: string,
  resources: readonly Resource[],
): Promise<ReadonlyMap<string, Sample>> {
  const firstByResource = new Map<string, Sample>();
  for (const { name } of resources) {
    const text = await readFile(join(folder, `${name}.yaml`), 'utf8').catch(() => '');
    // Parses only the first record, because parsing a whole file takes a tenth of a second.
    const [head = '', first = ''] = text.split(/^(?= *- )/m, 2);
    const samples = parse(head + first, { maxAliasCount: 0, logLevel: 'silent' }) as Samples | null;
    const [sample] = Array.isArray(samples?.records) ? samples.records : [];
    if (sample !== undefined) firstByResource.set(name, sample);
  }
  return firstByResource;
}

/**
 * Reads a resource's samples. Returns undefined if the file does not exist. @throws UserError if the file is
 * invalid
 */
async function readSamples(file: string): Promise<(Samples & { readonly file: string }) | undefined> {
  const text = await readFile(file, 'utf8').catch((cause: NodeJS.ErrnoException) => {
    if (cause.code === 'ENOENT') return undefined;
    throw new UserError(`cannot read ${file}: ${fileReason(cause)}`);
  });
  if (text === undefined) return undefined;
  try {
    const samples = parse(text, { maxAliasCount: 0 }) as Samples | null;
    if (!Array.isArray(samples?.records) || !isDate(String(samples.as_of))) {
      throw new Error('it must contain as_of (a date) and a list of records');
    }
    return { ...samples, file };
  } catch (cause) {
    throw new UserError(`${file}: ${(cause as Error).message.split('\n')[0]}`, { cause });
  }
}

/** Replaces references with the IDs of the created records, and shifts times by a number of days. */
function resolve(
  { definition }: Resource,
  sample: Sample,
  ids: ReadonlyMap<string, readonly string[]>,
  days: number,
): Record<string, unknown> {
  const createdId = (resource: string, position: unknown) =>
    Number(ids.get(resource)?.[Number(position) - 1]);
  const record: Record<string, unknown> = { ...sample };
  for (const field of definition.fields) {
    const value = record[field.name];
    if (value === undefined || value === null) continue;
    if (field.to !== undefined) record[field.name] = createdId(field.to, value);
    else if (isRecordReference(value))
      record[field.name] = { ...value, id: createdId(value.resource, value.id) };
    else if (field.type.shift !== undefined) record[field.name] = field.type.shift(String(value), days);
  }
  return record;
}
