import { Readable } from 'node:stream';
import { sql } from 'kysely';
import type { Resource } from '../../../engine/compile/index.ts';
import { boundToRequest, type Database } from '../../../engine/database/index.ts';
import { type Actor, recordChanges } from '../../../engine/effects/index.ts';
import { commandCaller, exportStream } from '../../../engine/records/index.ts';
import { listRows, tablesOf, transaction } from '../../../engine/tables/index.ts';
import { listUsers } from '../../access/identity/index.ts';
import { profileRows } from '../../access/profiles/index.ts';
import { teamRows } from '../../access/teams/index.ts';
import { listCustomFields } from '../custom-fields/index.ts';
import { exportNotes } from '../notes/index.ts';

/**
 * Maximum number of change log rows per statement, and total size of records after which a statement stops,
 * in bytes.
 */
const [maxChanges, maxBytes] = [500, 4 * 1024 * 1024];

/**
 * Exports an organization as NDJSON, without secrets. Each line has a `kind` and an object of that kind. The
 * organization comes first, followed by its profiles, members, teams, custom fields, records (grouped by resource), notes and change log.
 * @param organization the organization's ID
 */
export const exportOrganization = (
  instance: { readonly database: Database; readonly resources: readonly Resource[] },
  organization: string,
): Readable => Readable.from(boundToRequest(lines(instance, organization)), { objectMode: false });

/** Records an export of the organization in the change log. */
export const recordExport = (database: Database, actor: Actor, organization: string): Promise<void> =>
  transaction(database, (tables) =>
    recordChanges(tables, actor, {
      organization,
      action: 'export',
      object: 'organization',
      objectId: organization,
    }),
  );

async function* lines(
  { database, resources }: { readonly database: Database; readonly resources: readonly Resource[] },
  organization: string,
): AsyncGenerator<string> {
  const tables = tablesOf(database);
  const { id, slug, name, phone_region, created_at } = await tables
    .selectFrom('crm_organizations')
    .selectAll()
    .where('id', '=', organization)
    .executeTakeFirstOrThrow();
  yield line({ kind: 'organization', organization: { id, slug, name, phone_region, created_at } });
  for (const { name, grants } of await listRows(tables, profileRows, organization)) {
    yield line({ kind: 'profile', profile: { name, grants: [...grants] } });
  }
  for (const { id, email, name, verified_at, memberships } of await listUsers(tables, { organization })) {
    const profile = memberships.find((membership) => membership.organization === slug)?.profile;
    yield line({ kind: 'member', member: { id, email, name, verified_at, profile } });
  }
  for (const { name, members } of await listRows(tables, teamRows, organization))
    yield line({ kind: 'team', team: { name, members: [...members] } });
  for (const { resource, name, options, deletedAt } of await listCustomFields(tables, organization))
    yield line({ kind: 'custom_field', custom_field: { resource, name, ...options, deleted_at: deletedAt } });
  for (const resource of resources) yield* recordsOf(database, resource, organization);
  for await (const note of exportNotes(tables, organization)) yield `{"kind":"note","note":${note}}\n`;
  yield* changesIn(database, organization);
}

const line = (value: object): string => `${JSON.stringify(value)}\n`;

/** Yields a resource's records. Their JSON is not parsed, because JavaScript would change some numbers. */
async function* recordsOf(
  database: Database,
  { name, operations: { list } }: Resource,
  organization: string,
): AsyncGenerator<string> {
  if (list.export === undefined) return;
  const plan = list.export.plan({ caller: commandCaller(organization) });
  const prefix = `{"kind":"record","resource":${JSON.stringify(name)},"record":`;
  let partialLine = '';
  const stream = await exportStream(database, list.export, plan, 'ndjson');
  for await (const chunk of stream.setEncoding('utf8')) {
    const linesOfChunk = (partialLine + String(chunk)).split('\n');
    partialLine = linesOfChunk.pop() ?? '';
    for (const record of linesOfChunk) if (record !== '') yield `${prefix}${record}}\n`;
  }
}

/** Yields an organization's change log, in order. */
async function* changesIn(database: Database, organization: string): AsyncGenerator<string> {
  const tables = tablesOf(database);
  for (let after: { transaction: string; id: string } | undefined = { transaction: '0', id: '0' }; after; ) {
    const { rows }: { rows: { transaction: string; id: string; change: string }[] } = await sql<{
      transaction: string;
      id: string;
      change: string;
    }>`
      select "transaction"::text as transaction, "id"::text as id, json_build_object(
        'at', "at", 'actor', json_build_object('kind', "actor_kind", 'id', "actor_id", 'name', "actor_name"),
        'action', "action", 'object', "object", 'id', "object_id", 'request_id', "request_id",
        'version', "version", 'after', "record"::json, 'before', "before"::json)::text as change
      from (
        select *, sum("_size") over (order by "transaction", "id" rows unbounded preceding) - "_size" as "_before"
        from (
          select *, coalesce(octet_length("record"), 0) + coalesce(octet_length("before"), 0) as "_size"
          from crm_ledger
          where "organization_id" = ${organization}
            and ("transaction", "id") > (${after.transaction}::text::xid8, ${after.id}::text::bigint)
          order by "transaction", "id" limit ${sql.lit(maxChanges)}
        ) _sized
      ) _rows
      where "_before" < ${sql.lit(maxBytes)}
      order by _rows."transaction", _rows."id"`.execute(tables);
    for (const { change } of rows) yield `{"kind":"change","change":${change}}\n`;
    after = rows.at(-1);
  }
}
