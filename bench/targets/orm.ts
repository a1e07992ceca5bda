// The same API with MikroORM's entity manager on the same tables: em.find, em.findOne, em.create with flush, and
// em.nativeUpdate.

import type { EntitySchema } from '@mikro-orm/core';
import fastify from 'fastify';
import { readConfig } from '../../app/config.ts';
import { entitiesFor } from '../../app/instance.ts';
import { loadResources } from '../../app/serve/build.ts';
import { openDatabase } from '../../engine/database/open.ts';
import { listenAndReport } from './listening.ts';

const config = readConfig();
const resources = await loadResources(config);
const { orm } = await openDatabase(config, entitiesFor(resources));
const leads = resources.find((resource) => resource.name === 'leads');
if (leads === undefined) throw new Error('no leads');
const Lead = leads.entity as EntitySchema<Record<string, unknown>>;
const names = leads.definition.fields.map((field) => field.name);
const writable = leads.definition.fields.filter((field) => !field.readOnly);

type Row = Readonly<Record<string, unknown>>;
interface Request {
  readonly Querystring: { readonly organization: string; readonly status?: string; readonly dir?: 'asc' };
  readonly Params: { readonly id: string };
  readonly Body: Row;
}

/** Converts an entity to a plain object with IDs as numbers. */
const toPlain = (entity: unknown): Row =>
  Object.fromEntries(
    names.map((name) => {
      const value = (entity as Row)[name];
      return [name, typeof value === 'bigint' ? Number(value) : value];
    }),
  );
const findLead = async (organization: string, id: string): Promise<Row | undefined> => {
  const row = await orm.em
    .fork()
    .findOne(Lead, { organization_id: organization, id }, { disableIdentityMap: true });
  return row === null ? undefined : toPlain(row);
};
const columnValues = (body: Row) =>
  Object.fromEntries(writable.map((field) => [field.name, body[field.name] ?? field.default]));

const app = fastify();
app.get<Request>('/leads/:id', async ({ query, params }) => findLead(query.organization, params.id));
app.get<Request>('/leads', async ({ query: { organization, status, dir = 'desc' } }) => {
  const where =
    status === undefined ? { organization_id: organization } : { organization_id: organization, status };
  const rows = await orm.em.fork().find(Lead, where, {
    orderBy: [{ created_at: dir }, { id: dir }],
    limit: 20,
    disableIdentityMap: true,
  });
  return { data: rows.map(toPlain), page: 1, per_page: 20 };
});
app.post<Request>('/leads', async ({ query, body }, reply) => {
  const em = orm.em.fork();
  const now = new Date();
  const lead = em.create(Lead, {
    organizationLink: query.organization,
    created_at: now,
    updated_at: now,
    ...columnValues(body),
  });
  await em.persist(lead).flush();
  return reply.code(201).send({ ...toPlain(lead), organization_id: Number(query.organization) });
});
app.put<Request>('/leads/:id', async ({ query, params, body }) => {
  await orm.em.fork().nativeUpdate(
    Lead,
    { organization_id: query.organization, id: params.id },
    {
      updated_at: new Date(),
      ...columnValues(body),
    },
  );
  return findLead(query.organization, params.id);
});
app.delete<Request>('/leads/:id', async ({ query, params }) => {
  await orm.em.fork().nativeDelete(Lead, { organization_id: query.organization, id: params.id });
  return { ok: true };
});
await listenAndReport(app);
