import { createLead, getLead, listLeads } from '../generated/orval-7.ts';
import { getLeadResponse, listLeadsResponse } from '../generated/orval-7-zod.ts';
import { check, company } from './check.ts';

/** Runs a round in which Zod validates responses. */
export async function round(_baseUrl: string, key: string): Promise<void> {
  const options = { headers: { authorization: `Bearer ${key}` } };
  const source = 'orval-7';
  const made = getLeadResponse.parse((await createLead({ company, source }, undefined, options)).data);
  const whole = getLeadResponse.parse((await getLead(made.id, undefined, options)).data);
  check(whole.company === company, 'read');
  const part = getLeadResponse.parse((await getLead(made.id, { fields: ['company'] }, options)).data);
  check(part.company === company && part.email === undefined, 'part');
  const list = await listLeads({ source: [source], fields: ['company'] }, options);
  check(listLeadsResponse.parse(list.data).data[0]?.company === company, 'parts');
}
