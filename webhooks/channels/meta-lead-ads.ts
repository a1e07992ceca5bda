import { sql } from 'kysely';
import type { FieldRequirements } from '../../engine/definition/index.ts';
import { readJson } from '../../engine/records/index.ts';
import type { Tables } from '../../engine/tables/index.ts';
import { fetchJson, partnerRecords, UnreachableError } from '../endpoint/index.ts';
import { type Channel, type ChannelContext, PermanentError, RetryableError } from './channel.ts';
import { type Json, jsonList, jsonObject, jsonText, meta } from './meta.ts';

const isLeadgenId = (text: string): boolean => /^\d{1,40}$/.test(text);

/** The lead's field for each field of a lead form. */
const formFields: Readonly<Record<string, string>> = {
  first_name: 'first_name',
  last_name: 'last_name',
  email: 'email',
  phone_number: 'phone',
  company_name: 'company',
};

/** The fields of a lead that it writes and finds leads by. */
export const leadAdsNeeds: FieldRequirements = {
  file: 'webhooks/channels/meta-lead-ads.ts',
  resource: 'leads',
  fields: {
    ...Object.fromEntries(
      [...Object.values(formFields), 'last_name', 'meta_ad_id', 'meta_form_id', 'meta_campaign_id'].map(
        (name) => [name, { types: ['string', 'text'] }],
      ),
    ),
    source: { types: ['string', 'text'], writable: true },
    meta_leadgen_id: { types: ['string'], lookup: 'exact' },
  },
};

/**
 * Meta Lead Ads: the delivery names a lead, its fields are fetched from the Graph API. One lead for each leadgen id
 * and organization, for any number of deliveries; it is a stub until the fetch succeeds.
 */
export const metaLeadAds: Channel = {
  ...meta,
  label: 'Meta Lead Ads',
  tokenLabel: 'Page access token',
  tokenHelp:
    'Fetches the leads: a token of a system user with leads_retrieval for the page, which does not expire.',
  events: ({ raw }) => {
    const payload = jsonObject(readJson(raw));
    if (payload.object !== 'page') return [];
    return jsonList(payload.entry)
      .flatMap((entry) => jsonList(entry.changes))
      .filter((change) => change.field === 'leadgen')
      .map((change) => jsonObject(change.value))
      .map((value) => ({
        id: jsonText(value.leadgen_id),
        data: {
          leadgen: jsonText(value.leadgen_id),
          form: jsonText(value.form_id),
          ad: jsonText(value.ad_id),
        },
      }))
      .filter((event) => isLeadgenId(event.id));
  },
  process: async ({ data }, work) => {
    const { leadgen = '', form = '', ad = '', made } = data as Readonly<Record<string, string | undefined>>;
    if (!isLeadgenId(leadgen)) throw new PermanentError('the event names no lead');
    const ids = { meta_leadgen_id: leadgen, meta_form_id: form, meta_ad_id: ad };
    if (made === undefined) await work.webhooks.database.admitRecords?.(work.integration.organization, 1);
    const id = await work.transaction(async (tables) => {
      if (made === undefined) {
        await stub(tables, work, ids);
        await work.remember(tables, { leadgen, form, ad, made: 'yes' });
      }
      return findLead(tables, work, leadgen);
    });
    // A lead that was created and then deleted by a user is not created again.
    if (id === undefined) return;
    const fetched = await fetchLead(work, leadgen);
    const fields = { ...fieldsOf(fetched), ...idsOf(fetched) };
    await work.transaction((tables) => recordsOf(tables, work).patch('leads', id, fields));
  },
};

const recordsOf = (tables: Tables, { webhooks, integration, requestId }: ChannelContext) =>
  partnerRecords(tables, webhooks.resources, {
    organization: integration.organization,
    requestId,
    name: 'meta-lead-ads',
  });

const findLead = (tables: Tables, work: ChannelContext, leadgen: string) =>
  recordsOf(tables, work).find('leads', ['meta_leadgen_id', leadgen]);

/** Creates the lead with its ids unless it exists, also when two nodes try concurrently. */
async function stub(
  tables: Tables,
  work: ChannelContext,
  ids: Readonly<Record<string, string>>,
): Promise<void> {
  const { organization } = work.integration;
  const name = `${organization} ${ids.meta_leadgen_id}`;
  await sql`select pg_advisory_xact_lock(hashtextextended(${name}::text, 0))`.execute(tables);
  if ((await findLead(tables, work, ids.meta_leadgen_id ?? '')) !== undefined) return;
  const records = recordsOf(tables, work);
  await records.create('leads', { source: 'Meta Lead Ads' }, ids);
}

/** @throws TryAgain when the Graph API does not return the lead */
async function fetchLead({ webhooks, integration }: ChannelContext, leadgen: string): Promise<Json> {
  const { base_url, version, timeout_ms } = webhooks.settings.current.graph;
  const path = `/${version}/${leadgen}?fields=id,created_time,ad_id,form_id,campaign_id,field_data`;
  try {
    const { status, body } = await fetchJson(base_url, path, {
      method: 'GET',
      token: integration.token,
      timeoutMs: timeout_ms,
    });
    if (status !== 200) throw new RetryableError(`the Graph API answered ${status}`);
    const lead = jsonObject(body);
    if (!Array.isArray(lead.field_data)) throw new RetryableError('the Graph API gave no lead');
    return lead;
  } catch (cause) {
    if (cause instanceof UnreachableError)
      throw new RetryableError(`the Graph API: ${cause.message}`, { cause });
    throw cause;
  }
}

/** Names and addresses of `field_data`; a full name is split if its parts are missing. */
function fieldsOf(lead: Json): Record<string, string> {
  const given = new Map(
    jsonList(lead.field_data).map((each) => [
      jsonText(each.name),
      jsonText((each.values as unknown[] | undefined)?.[0]),
    ]),
  );
  const fields: Record<string, string> = {};
  for (const [theirs, ours] of Object.entries(formFields)) {
    const value = given.get(theirs);
    if (value) fields[ours] = value;
  }
  const full = given.get('full_name')?.trim();
  if (full && fields.first_name === undefined && fields.last_name === undefined) {
    const [first = '', ...rest] = full.split(/\s+/);
    fields.first_name = first;
    fields.last_name = rest.join(' ');
  }
  return fields;
}

const idsOf = (lead: Json): Record<string, string> =>
  Object.fromEntries(
    Object.entries({
      meta_ad_id: jsonText(lead.ad_id),
      meta_form_id: jsonText(lead.form_id),
      meta_campaign_id: jsonText(lead.campaign_id),
    }).filter(([, value]) => value !== ''),
  );
