import type { StatementRunner } from '../../engine/database/index.ts';
import type { FieldRequirements } from '../../engine/definition/index.ts';
import { type ExistingRecords, type Records, readJson } from '../../engine/records/index.ts';
import {
  changingPartnerRecords,
  creatingPartnerRecords,
  fetchJson,
  type Partner,
  UnreachableError,
} from '../endpoint/index.ts';
import {
  type Channel,
  type ChannelContext,
  type ChannelServices,
  PermanentError,
  RetryableError,
} from './channel.ts';
import {
  asNumber,
  type Json,
  jsonList,
  jsonObject,
  jsonText,
  jsonWithNumbers,
  meta,
  metaSimulation,
} from './meta.ts';
import { channelsTexts } from './texts/index.ts';

const isLeadgenId = (text: string): boolean => /^\d{1,40}$/.test(text);

/** Maps lead form fields to lead fields. */
const formFields: Readonly<Record<string, string>> = {
  first_name: 'first_name',
  last_name: 'last_name',
  email: 'email',
  phone_number: 'phone',
  company_name: 'company',
};

/** Lead fields that this channel reads and writes. */
export const leadAdsNeeds: FieldRequirements = {
  file: 'webhooks/channels/meta-lead-ads.ts',
  resource: 'leads',
  fields: {
    ...Object.fromEntries(
      [...Object.values(formFields), 'last_name', 'meta_ad_id', 'meta_form_id', 'meta_campaign_id'].map(
        (name) => [name, { types: ['string', 'text'] }],
      ),
    ),
    source: { types: ['string', 'text'], writable: true, values: ['Meta Lead Ads'] },
    meta_leadgen_id: { types: ['string'], lookup: 'exact' },
  },
};

/**
 * Meta Lead Ads. A delivery contains only a lead's ID; the lead's fields are fetched from the Graph API. Each
 * leadgen ID creates only one lead per organization, however often it is delivered. The lead is a stub until
 * the fetch succeeds.
 */
export const metaLeadAds: Channel = {
  ...meta,
  label: 'Meta Lead Ads',
  needs: leadAdsNeeds,
  tokenLabel: 'Page access token',
  tokenHelp: channelsTexts.later('leadAdsToken'),
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
  process: async ({ data }, context) => {
    const {
      leadgen = '',
      form = '',
      ad = '',
      made: isStubbed,
    } = data as Readonly<Record<string, string | undefined>>;
    if (!isLeadgenId(leadgen)) throw new PermanentError('the event does not contain a lead ID');
    const ids = { meta_leadgen_id: leadgen, meta_form_id: form, meta_ad_id: ad };
    const { webhooks } = context;
    const partner = partnerOf(context);
    const id =
      isStubbed === undefined
        ? await creatingPartnerRecords(webhooks, partner, async (records, run) => {
            const stubId = await createStub(records, run, context, ids);
            await context.remember(run, { leadgen, form, ad, made: 'yes' });
            return stubId;
          })
        : await changingPartnerRecords(webhooks, partner, (records) => findLead(records, leadgen));
    // A user has deleted the lead, so it must not be recreated.
    if (id === undefined) return;
    const lead = await fetchLead(context, leadgen);
    const fields = { ...fieldsOf(lead), ...idsOf(lead) };
    await changingPartnerRecords(webhooks, partner, (records) => records.patch('leads', id, fields));
  },
  simulation: {
    ...metaSimulation,
    eventId: ({ id }) => id,
    body: ({ id, text }) =>
      jsonWithNumbers({
        object: 'page',
        entry: [
          {
            id: '153125381133',
            time: Math.floor(Date.now() / 1000),
            changes: [
              {
                field: 'leadgen',
                value: {
                  leadgen_id: asNumber(id),
                  page_id: '153125381133',
                  form_id: '12312312312',
                  ad_id: '67546546546',
                  adgroup_id: '3433434343',
                  created_time: Math.floor(Date.now() / 1000),
                  // This is not one of Meta's fields. It pads the large delivery.
                  ...(text.length > 1000 && { padding: text }),
                },
              },
            ],
          },
        ],
      }),
  },
};

type ServedContext = ChannelContext & ChannelServices;

const partnerOf = ({ integration, requestId }: ChannelContext): Partner => ({
  organization: integration.organization,
  requestId,
  name: 'meta-lead-ads',
});

const findLead = (records: ExistingRecords, leadgen: string) =>
  records.find('leads', ['meta_leadgen_id', leadgen]);

/**
 * Creates a lead with only its IDs, unless it already exists. Two nodes can safely do this concurrently.
 * @returns the lead's ID
 */
async function createStub(
  records: Records,
  run: StatementRunner,
  context: ServedContext,
  ids: Readonly<Record<string, string>>,
): Promise<string> {
  const { organization } = context.integration;
  const name = `${organization} ${ids.meta_leadgen_id}`;
  await run({
    name: '',
    text: 'select pg_advisory_xact_lock(hashtextextended($1::text, 0))::text',
    values: [name],
  });
  const existing = await findLead(records, ids.meta_leadgen_id ?? '');
  return existing ?? records.create('leads', { source: 'Meta Lead Ads', ...ids });
}

/** Fetches a lead. @throws RetryableError if the Graph API does not return it */
async function fetchLead({ webhooks, integration }: ServedContext, leadgen: string): Promise<Json> {
  const { base_url, version, timeout_ms } = webhooks.settings.current.graph;
  const path = `/${version}/${leadgen}?fields=id,created_time,ad_id,form_id,campaign_id,field_data`;
  try {
    const { status, body } = await fetchJson(base_url, path, {
      method: 'GET',
      token: integration.token,
      timeoutMs: timeout_ms,
    });
    if (status !== 200) throw new RetryableError(`the Graph API responded with ${status}`);
    const lead = jsonObject(body);
    if (!Array.isArray(lead.field_data)) throw new RetryableError('the Graph API did not return a lead');
    return lead;
  } catch (cause) {
    if (cause instanceof UnreachableError)
      throw new RetryableError(`the Graph API is unavailable: ${cause.message}`, { cause });
    throw cause;
  }
}

/** Maps `field_data` to a lead's fields. Splits the full name if the first and last names are missing. */
function fieldsOf(lead: Json): Record<string, string> {
  const values = new Map(
    jsonList(lead.field_data).map((field) => [
      jsonText(field.name),
      jsonText((field.values as unknown[] | undefined)?.[0]),
    ]),
  );
  const fields: Record<string, string> = {};
  for (const [formField, leadField] of Object.entries(formFields)) {
    const value = values.get(formField);
    if (value) fields[leadField] = value;
  }
  const fullName = values.get('full_name')?.trim();
  if (fullName && fields.first_name === undefined && fields.last_name === undefined) {
    const [first = '', ...rest] = fullName.split(/\s+/);
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
