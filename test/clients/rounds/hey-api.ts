import { createClient } from '../generated/hey-api/client/index.ts';
import {
  createLead,
  createOpportunity,
  deleteLead,
  getLead,
  listLeads,
  patchLead,
  replaceLead,
} from '../generated/hey-api/index.ts';
import { check, company, count, nextPage } from './check.ts';

/** Runs a round in which Zod validates every request and response. */
export async function round(baseUrl: string, key: string): Promise<void> {
  const client = createClient({ baseUrl, auth: key });
  const source = 'hey-api';

  for (let n = 0; n < count; n++) {
    const made = await createLead({
      client,
      headers: { 'Idempotency-Key': `${source}-${n}` },
      body: { company, source, rating: n % 2 === 0 ? 'Hot' : 'Lukewarm', email: null },
    });
    check(made.data?.email === '', `created: ${String(made.error)}`);
  }

  const ids = new Set<number>();
  let query: Record<string, unknown> | undefined = { source: [source], sort: 'id', dir: 'asc' };
  for (let pages = 0; query !== undefined; pages++) {
    check(pages < 3, 'the pages end');
    const list = await listLeads({ client, query, headers: { Prefer: 'handling=strict' } });
    check(list.data !== undefined && list.response !== undefined, `listed: ${String(list.error)}`);
    for (const { id } of list.data.data) ids.add(id);
    const next = nextPage(list.response.headers);
    query = next && { ...next, source: [source] };
  }
  check(ids.size === count, 'every record was seen once');

  const several = await listLeads({
    client,
    query: {
      source: [source],
      'rating[in]': ['Cold', 'Lukewarm'],
      'created_at[gte]': '2026-03-01T00:00:00+02:00',
    },
  });
  check(several.data?.data.length === 12, `filtered: ${String(several.error)}`);

  const [id = 0] = ids;
  const path = { id };
  const read = await getLead({ client, path });
  const tag = read.response?.headers.get('etag') ?? '';
  check(read.data?.company === company && tag !== '', 'read');
  const part = await getLead({ client, path, query: { fields: ['company'] } });
  check(part.data?.company === company && part.data.email === undefined, `part: ${String(part.error)}`);
  const parts = await listLeads({ client, query: { source: [source], fields: ['company'] } });
  check(parts.data?.data[0]?.company === company, `parts: ${String(parts.error)}`);

  const headers = { 'If-Match': tag };
  const changed = await patchLead({ client, path, headers, body: { lead_score: 7 } });
  check(changed.data?.lead_score === 7 && changed.data.company === company, 'changed');
  const stale = await patchLead({ client, path, headers, body: { lead_score: 8 } });
  check(stale.error?.code === 'precondition_failed', 'refused');
  const put = await replaceLead({ client, path, body: { company, source } });
  check(put.data?.lead_score === 0, 'replaced');

  const dated = await createOpportunity({
    client,
    body: { name: source, amount: 12.5, close_date: '2026-03-01T09:30:00+02:00' },
  });
  check(dated.data?.close_date === '2026-03-01T09:30:00+02:00', `offsets are kept: ${String(dated.error)}`);

  // Zod would reject this body before it is sent.
  const unchecked = { client, requestValidator: undefined };
  // @ts-expect-error: a number is not a company
  const wrong = await createLead({ ...unchecked, body: { company: 7 } });
  check(wrong.error?.fields?.[0]?.field === 'company', 'a wrong field is named');

  for (const each of ids) {
    const gone = await deleteLead({ client, path: { id: each } });
    check(gone.data?.ok === true, 'deleted');
  }
  const missing = await getLead({ client, path });
  check(missing.error?.code === 'not_found' && missing.response?.status === 404, 'missing');
}
