import {
  createLead,
  createOpportunity,
  deleteLead,
  getLead,
  type ListLeadsParams,
  listLeads,
  patchLead,
  replaceLead,
} from '../generated/orval.ts';
import { CreateOpportunityResponse, GetLeadResponse, ListLeadsResponse } from '../generated/orval-zod.ts';
import { check, company, count, nextPage } from './check.ts';

/** Runs a round in which Zod validates responses. */
export async function round(_baseUrl: string, key: string): Promise<void> {
  const authorization = `Bearer ${key}`;
  const options = (headers: Record<string, string> = {}) => ({ headers: { authorization, ...headers } });
  const source = 'orval';

  for (let n = 0; n < count; n++) {
    const made = await createLead(
      { company, source, rating: n % 2 === 0 ? 'Hot' : 'Lukewarm', email: null },
      undefined,
      options({ 'Idempotency-Key': `${source}-${n}` }),
    );
    check(made.status === 201 && GetLeadResponse.parse(made.data).email === '', 'created');
  }

  const ids = new Set<number>();
  let query: ListLeadsParams | undefined = { source: [source], sort: 'id', dir: 'asc' };
  for (let pages = 0; query !== undefined; pages++) {
    check(pages < 3, 'the pages end');
    const list = await listLeads(query, options({ Prefer: 'handling=strict' }));
    check(list.status === 200, 'listed');
    for (const { id } of ListLeadsResponse.parse(list.data).data) ids.add(id);
    query = nextPage(list.headers);
  }
  check(ids.size === count, 'every record was seen once');

  const several = await listLeads(
    {
      source: [source],
      'rating[in]': ['Cold', 'Lukewarm'],
      'created_at[gte]': '2026-03-01T00:00:00+02:00',
    },
    options(),
  );
  check(several.status === 200 && several.data.data.length === 12, 'filtered');

  const [id = 0] = ids;
  const read = await getLead(id, undefined, options());
  const tag = read.headers.get('etag') ?? '';
  check(read.status === 200 && read.data.company === company && tag !== '', 'read');
  const part = await getLead(id, { fields: ['company'] }, options());
  const { company: shown, email: hidden } = GetLeadResponse.parse(part.data);
  check(shown === company && hidden === undefined, 'part');
  const parts = await listLeads({ source: [source], fields: ['company'] }, options());
  check(ListLeadsResponse.parse(parts.data).data[0]?.company === company, 'parts');

  const withTag = options({ 'If-Match': tag });
  const changed = await patchLead(id, { lead_score: 7 }, undefined, withTag);
  check(changed.status === 200 && changed.data.lead_score === 7, 'changed');
  const stale = await patchLead(id, { lead_score: 8 }, undefined, withTag);
  check(stale.status === 412 && stale.data.code === 'precondition_failed', 'refused');
  const put = await replaceLead(id, { company, source }, undefined, options());
  check(put.status === 200 && put.data.lead_score === 0, 'replaced');

  const dated = await createOpportunity(
    { name: source, amount: 12.5, close_date: '2026-03-01T09:30:00+02:00' },
    undefined,
    options(),
  );
  check(CreateOpportunityResponse.parse(dated.data).close_date?.endsWith('+02:00'), 'offsets are kept');

  // @ts-expect-error: a number is not a company
  const wrong = await createLead({ company: 7 }, undefined, options());
  check(wrong.status === 400 && wrong.data.fields?.[0]?.field === 'company', 'a wrong field is named');

  for (const each of ids) {
    const gone = await deleteLead(each, undefined, options());
    check(gone.status === 200 && gone.data.ok, 'deleted');
  }
  const missing = await getLead(id, undefined, options());
  check(missing.status === 404 && missing.data.code === 'not_found', 'missing');
}
