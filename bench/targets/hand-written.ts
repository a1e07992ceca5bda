// A hand-written implementation with Fastify, a pg pool, named statements, and schemas for bodies and responses.
import fastify from 'fastify';
import pg from 'pg';
import { listenAndReport } from './listening.ts';

const columns = {
  id: { type: 'integer' },
  organization_id: { type: 'integer' },
  owner_id: { type: ['integer', 'null'] },
  created_by_id: { type: ['integer', 'null'] },
  last_modified_by_id: { type: ['integer', 'null'] },
  created_at: { type: 'string', format: 'date-time' },
  updated_at: { type: 'string', format: 'date-time' },
  first_name: { type: 'string' },
  last_name: { type: 'string' },
  company: { type: 'string' },
  email: { type: 'string' },
  phone: { type: 'string' },
  status: { type: 'string' },
  rating: { type: 'string' },
  source: { type: 'string' },
  lead_score: { type: 'integer' },
  timezone: { type: 'string' },
  linkedin_url: { type: 'string' },
  facebook_url: { type: 'string' },
  instagram_handle: { type: 'string' },
  description: { type: 'string' },
  meta_ad_id: { type: 'string' },
  meta_form_id: { type: 'string' },
  meta_campaign_id: { type: 'string' },
  meta_leadgen_id: { type: 'string' },
} as const;

type Column = keyof typeof columns;
const columnNames = Object.keys(columns) as Column[];
const writable = columnNames.slice(columnNames.indexOf('first_name'), columnNames.indexOf('meta_ad_id'));
const columnList = columnNames.join(', ');
const record = { type: 'object', properties: columns } as const;
const body = {
  type: 'object',
  properties: Object.fromEntries(writable.map((name) => [name, columns[name]])),
} as const;
const list = {
  type: 'object',
  properties: {
    data: { type: 'array', items: record },
    page: { type: 'integer' },
    per_page: { type: 'integer' },
  },
} as const;

// Parse 64-bit integers as numbers, as most applications do.
pg.types.setTypeParser(pg.types.builtins.INT8, Number);
const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL, max: 10 });
const app = fastify();

interface Request {
  readonly Querystring: { readonly organization: string; readonly status?: string; readonly dir?: 'asc' };
  readonly Params: { readonly id: string };
  readonly Body: Partial<Record<Column, unknown>>;
}
const values = (input: Request['Body']) =>
  writable.map((name) => input[name] ?? (name === 'lead_score' ? 0 : ''));

app.get<Request>('/leads/:id', { schema: { response: { 200: record } } }, async (request, reply) => {
  const { rows } = await pool.query({
    name: 'read',
    text: `select ${columnList} from leads where organization_id = $1 and id = $2`,
    values: [request.query.organization, request.params.id],
  });
  return rows[0] ?? reply.code(404).send({ error: 'not found' });
});

app.get<Request>('/leads', { schema: { response: { 200: list } } }, async ({ query }) => {
  const filter = query.status === undefined ? '' : 'and left(status, 100) = left($2, 100) and status = $2';
  const direction = query.dir ?? 'desc';
  const { rows } = await pool.query({
    name: `list ${filter} ${direction}`,
    text: `select ${columnList} from leads where organization_id = $1 ${filter} order by created_at ${direction}, id ${direction} limit 20`,
    values: query.status === undefined ? [query.organization] : [query.organization, query.status],
  });
  return { data: rows, page: 1, per_page: 20 };
});

app.post<Request>('/leads', { schema: { body, response: { 201: record } } }, async (request, reply) => {
  const { rows } = await pool.query({
    name: 'create',
    text: `insert into leads (organization_id, created_at, updated_at, ${writable.join(', ')})
     values ($1, now(), now(), ${writable.map((_, index) => `$${index + 2}`).join(', ')}) returning ${columnList}`,
    values: [request.query.organization, ...values(request.body)],
  });
  return reply.code(201).send(rows[0]);
});

app.put<Request>('/leads/:id', { schema: { body, response: { 200: record } } }, async (request, reply) => {
  const { rows } = await pool.query({
    name: 'replace',
    text: `update leads set updated_at = now(), ${writable.map((name, index) => `${name} = $${index + 3}`).join(', ')}
     where organization_id = $1 and id = $2 returning ${columnList}`,
    values: [request.query.organization, request.params.id, ...values(request.body)],
  });
  return rows[0] ?? reply.code(404).send({ error: 'not found' });
});

app.delete<Request>('/leads/:id', async (request, reply) => {
  const { rowCount } = await pool.query({
    name: 'delete',
    text: 'delete from leads where organization_id = $1 and id = $2',
    values: [request.query.organization, request.params.id],
  });
  return rowCount === 1 ? { ok: true } : reply.code(404).send({ error: 'not found' });
});

await listenAndReport(app);
