import createClient from 'openapi-fetch';
import type { paths } from '../generated/openapi-typescript.ts';
import { check, company, count, nextPage } from './check.ts';

export async function round(baseUrl: string, key: string): Promise<void> {
  const crm = createClient<paths, 'application/json'>({
    baseUrl,
    headers: { authorization: `Bearer ${key}` },
  });
  const source = 'openapi-fetch';

  for (let n = 0; n < count; n++) {
    const made = await crm.POST('/api/v1/leads', {
      params: { header: { 'Idempotency-Key': `${source}-${n}` } },
      body: { company, source, rating: n % 2 === 0 ? 'Hot' : 'Lukewarm', email: null },
    });
    check(made.data !== undefined && made.data.email === '', 'created');
  }

  const ids = new Set<number>();
  let query: Record<string, unknown> | undefined = { source: [source], sort: 'id', dir: 'asc' };
  for (let pages = 0; query !== undefined; pages++) {
    check(pages < 3, 'the pages end');
    const list = await crm.GET('/api/v1/leads', {
      params: { query, header: { Prefer: 'handling=strict' } },
    });
    check(list.data !== undefined, 'listed');
    for (const { id } of list.data.data) ids.add(id);
    query = nextPage(list.response.headers);
  }
  check(ids.size === count, 'every record was seen once');

  const several = await crm.GET('/api/v1/leads', {
    params: {
      query: {
        source: [source],
        'rating[in]': ['Cold', 'Lukewarm'],
        'created_at[gte]': '2026-03-01T00:00:00+02:00',
      },
    },
  });
  check(several.data?.data.length === 12, 'filtered');

  const [id = 0] = ids;
  const params = { path: { id } };
  const read = await crm.GET('/api/v1/leads/{id}', { params });
  const tag = read.response.headers.get('etag') ?? '';
  check(read.data?.company === company && tag !== '', 'read');
  const part = await crm.GET('/api/v1/leads/{id}', { params: { ...params, query: { fields: ['company'] } } });
  check(part.data?.company === company && part.data.email === undefined, 'part');

  const withTag = { ...params, header: { 'If-Match': tag } };
  const changed = await crm.PATCH('/api/v1/leads/{id}', { params: withTag, body: { lead_score: 7 } });
  check(changed.data?.lead_score === 7 && changed.data.company === company, 'changed');
  const stale = await crm.PATCH('/api/v1/leads/{id}', { params: withTag, body: { lead_score: 8 } });
  check(stale.error?.code === 'precondition_failed', 'refused');
  const put = await crm.PUT('/api/v1/leads/{id}', { params, body: { company, source } });
  check(put.data?.lead_score === 0, 'replaced');

  const { data: dated } = await crm.POST('/api/v1/opportunities', {
    body: { name: source, amount: 12.5, close_date: '2026-03-01T09:30:00+02:00' },
  });
  check(dated?.close_date === '2026-03-01T09:30:00+02:00' && dated.amount === 12.5, 'offsets are kept');

  // @ts-expect-error: a number is not a company
  const wrong = await crm.POST('/api/v1/leads', { body: { company: 7 } });
  check(wrong.error?.fields?.[0]?.field === 'company', 'a wrong field is named');

  for (const each of ids) {
    const gone = await crm.DELETE('/api/v1/leads/{id}', { params: { path: { id: each } } });
    check(gone.data?.ok === true, 'deleted');
  }
  const missing = await crm.GET('/api/v1/leads/{id}', { params });
  check(missing.error?.code === 'not_found' && missing.response.status === 404, 'missing');
}
