import type { Resource } from '../../engine/compile/index.ts';
import { UserError } from '../../engine/errors.ts';
import { organizationId, type Tables } from '../../engine/tables/index.ts';
import type { Sealing } from '../../plugins/access/secrets/index.ts';
import { bookingFormsPath } from '../booking-forms/index.ts';
import { ownProperty, partnerRecords } from '../endpoint/index.ts';
import { inboundLeadsPath } from '../inbound-leads/index.ts';
import { endpointPath, listIntegrations, openIntegration } from '../inbox/index.ts';
import { customerOf, hookOf, paymentPath } from '../payments/index.ts';
import type { Settings } from '../settings/index.ts';
import { channelScripts } from './channels.ts';
import { bookingFormScript, inboundLeadScript, paymentScript } from './partners.ts';
import type { Script } from './script.ts';

/** The providers that can be simulated, in addition to the customers of config.yaml. */
export const simulated = [...Object.keys(channelScripts), 'inbound-leads', 'booking-forms-whatsapp'];

/** The services for looking into the instance's database. */
export interface InstanceAccess {
  readonly tables: Tables;
  readonly resources: readonly Resource[];
  readonly sealed: Sealing;
}

/** A prepared simulation: its deliveries, their target, and a way to count which events arrived. */
export interface PreparedSimulation {
  readonly script: Script;
  readonly path: string;
  readonly secret: string;
  /** Counts these events by their state. */
  readonly arrived: (
    inside: InstanceAccess,
    eventIds: readonly string[],
  ) => Promise<Readonly<Record<string, number>>>;
}

/** How the caller names the integration if the database is not available. */
export interface IntegrationInput {
  readonly org: string;
  readonly endpoint?: string | undefined;
  readonly secret?: string | undefined;
}

/**
 * Prepares a provider or partner.
 * @throws UserError when it is unknown, not configured, or not reachable with the given options
 */
export async function prepareSimulation(
  provider: string,
  given: IntegrationInput,
  settings: Settings,
  inside: InstanceAccess | undefined,
): Promise<PreparedSimulation> {
  if (inside !== undefined) await organizationId(inside.tables, given.org);
  const channel = ownProperty(channelScripts, provider);
  if (channel !== undefined) return prepareChannel(provider, channel, given, inside);
  const { inbound_leads, booking_forms_whatsapp, payments } = settings.partners;
  if (provider === 'inbound-leads') {
    return {
      script: inboundLeadScript(given.org),
      path: inboundLeadsPath,
      secret: given.secret ?? firstOf(inbound_leads.secrets, provider),
      arrived: leadsArrived(given.org),
    };
  }
  if (provider === 'booking-forms-whatsapp') {
    mustBeFor(booking_forms_whatsapp.organization, provider, given);
    return {
      script: bookingFormScript,
      path: bookingFormsPath,
      secret: given.secret ?? firstOf(booking_forms_whatsapp.secrets, provider),
      arrived: messagesArrived(booking_forms_whatsapp.organization),
    };
  }
  const customer = customerOf(provider);
  const entry = ownProperty(payments, customer);
  if (entry === undefined) {
    const known = [...simulated, ...Object.keys(payments).map(hookOf)];
    throw new UserError(`there is no provider "${provider}"; there are ${known.join(', ')}`);
  }
  mustBeFor(entry.organization, provider, given);
  return {
    script: paymentScript(entry),
    path: paymentPath(provider),
    secret: given.secret ?? firstOf(entry.verify.secrets, provider),
    arrived: paymentsArrived(entry.organization, customer),
  };
}

/** Records must not be created in another organization than the named one. */
function mustBeFor(organization: string, provider: string, { org }: IntegrationInput): void {
  if (org !== organization)
    throw new UserError(`${provider} is configured for "${organization}", not "${org}"`);
}

function firstOf(secrets: readonly string[], provider: string): string {
  const [secret] = secrets;
  if (secret === undefined) throw new UserError(`${provider} is off: it has no secret in config.yaml`);
  return secret;
}

async function prepareChannel(
  provider: string,
  script: Script,
  { org, endpoint, secret }: IntegrationInput,
  inside: InstanceAccess | undefined,
): Promise<PreparedSimulation> {
  if (inside === undefined) {
    if (endpoint === undefined || secret === undefined) {
      throw new UserError('the database of that server is not here: give --endpoint and --secret-stdin');
    }
    return { script, path: endpointPath(provider, endpoint), secret, arrived: async () => ({}) };
  }
  const { tables, sealed } = inside;
  const organization = await organizationId(tables, org);
  const found = (await listIntegrations(tables, organization)).find(
    (each) =>
      each.provider === provider && each.enabled && (endpoint === undefined || each.endpoint === endpoint),
  );
  const integration = found && (await openIntegration(tables, sealed, { organization, id: found.id }));
  if (integration === undefined) {
    throw new UserError(
      `"${org}" has no ${provider} integration that is on; add one under Setup, Integrations`,
    );
  }
  return {
    script,
    path: endpointPath(provider, integration.endpoint),
    secret: secret ?? integration.secret,
    arrived: inboxArrived(organization, integration.id),
  };
}

/** Ids per statement: the parameters of one statement are limited. */
const part = 1000;

const inboxArrived =
  (organization: string, integration: string): PreparedSimulation['arrived'] =>
  async ({ tables }, ids) => {
    const counts: Record<string, number> = {};
    for (let start = 0; start < ids.length; start += part) {
      const rows = await tables
        .selectFrom('crm_inbox')
        .select((each) => ['status', each.fn.countAll<string>().as('count')])
        .where('organization_id', '=', organization)
        .where('integration_id', '=', integration)
        .where('event_id', 'in', ids.slice(start, start + part))
        .groupBy('status')
        .execute();
      for (const { status, count } of rows) counts[status] = (counts[status] ?? 0) + Number(count);
    }
    return counts;
  };

/** Counts events by their state; those without one have not arrived. */
async function countEach(
  ids: readonly string[],
  states: readonly string[],
  find: (id: string) => Promise<string | undefined>,
): Promise<Readonly<Record<string, number>>> {
  const counts: Record<string, number> = Object.fromEntries(states.map((state) => [state, 0]));
  for (const id of ids) {
    const state = await find(id);
    if (state !== undefined) counts[state] = (counts[state] ?? 0) + 1;
  }
  return counts;
}

const leadsArrived =
  (slug: string): PreparedSimulation['arrived'] =>
  async ({ tables, resources }, emails) => {
    const organization = await organizationId(tables, slug);
    const records = partnerRecords(tables, resources, { organization, requestId: '', name: 'simulate' });
    return countEach(emails, ['leads'], async (email) => {
      const found = await records.find('leads', ['email', email]);
      return found === undefined ? undefined : 'leads';
    });
  };

const messagesArrived =
  (slug: string): PreparedSimulation['arrived'] =>
  async ({ tables }, ids) => {
    const organization = await organizationId(tables, slug);
    return countEach(ids, [], async (id) => {
      const row = await tables
        .selectFrom('crm_messages')
        .select('status')
        .where('organization_id', '=', organization)
        .where('body', 'like', `${id} %`)
        .executeTakeFirst();
      return row?.status;
    });
  };

const paymentsArrived =
  (slug: string, customer: string): PreparedSimulation['arrived'] =>
  async ({ tables }, ids) => {
    const organization = await organizationId(tables, slug);
    return countEach(ids, ['matched', 'unmatched'], async (id) => {
      const row = await tables
        .selectFrom('crm_payment_events')
        .select('answer')
        .where('organization_id', '=', organization)
        .where('customer', '=', customer)
        .where('event_id', '=', id)
        .executeTakeFirst();
      return row && (row.answer === null ? 'unmatched' : 'matched');
    });
  };
