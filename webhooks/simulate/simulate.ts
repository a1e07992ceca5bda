import { sql } from 'kysely';
import type { Resource } from '../../engine/compile/index.ts';
import type { Database } from '../../engine/database/index.ts';
import { UserError } from '../../engine/errors.ts';
import { listRows, organizationId, type Tables } from '../../engine/tables/index.ts';
import type { Sealing } from '../../plugins/access/secrets/index.ts';
import { bookingFormsPath } from '../booking-forms/index.ts';
import { type Channel, type Channels, channels } from '../channels/index.ts';
import { changingPartnerRecords, ownProperty } from '../endpoint/index.ts';
import { inboundLeadsPath } from '../inbound-leads/index.ts';
import { endpointPath, integrationRows, openIntegration } from '../inbox/index.ts';
import { customerOf, hookOf, paymentPath } from '../payments/index.ts';
import type { Settings } from '../settings/index.ts';
import {
  bookingFormScript,
  inboundLeadScript,
  paymentScript,
  type Script,
  simulatedPartners,
} from './partners.ts';

/** The engine's own providers and partners that can be simulated. */
export const simulatedProviders = [...Object.keys(channels), ...simulatedPartners];

/** Services that a simulation uses to read the instance's database. */
export interface InstanceAccess {
  readonly database: Database;
  readonly tables: Tables;
  readonly resources: readonly Resource[];
  readonly sealed: Sealing;
}

/** A prepared simulation. */
export interface PreparedSimulation {
  readonly script: Script;
  readonly path: string;
  readonly secret: string;
  /** Counts stored events by state. */
  readonly countStored: (
    access: InstanceAccess,
    eventIds: readonly string[],
  ) => Promise<Readonly<Record<string, number>>>;
}

/** The instance's channels, and the options that identify the integration. */
export interface IntegrationInput {
  readonly channels: Channels;
  readonly org: string;
  readonly endpoint?: string | undefined;
  readonly secret?: string | undefined;
}

/**
 * Prepares a simulation for a provider or partner.
 * @throws UserError if the provider is unknown or not configured, or the options do not identify the endpoint
 */
export async function prepareSimulation(
  provider: string,
  input: IntegrationInput,
  settings: Settings,
  access: InstanceAccess | undefined,
): Promise<PreparedSimulation> {
  if (access !== undefined) await organizationId(access.tables, input.org);
  const channel = ownProperty(input.channels, provider);
  if (channel !== undefined) return prepareChannel(provider, channel, input, access);
  const { inbound_leads, booking_forms_whatsapp, payments } = settings.partners;
  if (provider === 'inbound-leads') {
    return {
      script: inboundLeadScript(input.org),
      path: inboundLeadsPath,
      secret: input.secret ?? firstOf(inbound_leads.secrets, provider),
      countStored: countLeads(input.org),
    };
  }
  if (provider === 'booking-forms-whatsapp') {
    assertOrganization(booking_forms_whatsapp.organization, provider, input);
    return {
      script: bookingFormScript,
      path: bookingFormsPath,
      secret: input.secret ?? firstOf(booking_forms_whatsapp.secrets, provider),
      countStored: countMessages(booking_forms_whatsapp.organization),
    };
  }
  const customer = customerOf(provider);
  const entry = ownProperty(payments, customer);
  if (entry === undefined) {
    const names = [
      ...Object.keys(input.channels),
      ...simulatedPartners,
      ...Object.keys(payments).map(hookOf),
    ];
    throw new UserError(`Unknown provider "${provider}". Available: ${names.join(', ')}.`);
  }
  assertOrganization(entry.organization, provider, input);
  return {
    script: paymentScript(entry),
    path: paymentPath(provider),
    secret: input.secret ?? firstOf(entry.verify.secrets, provider),
    countStored: countPayments(entry.organization, customer),
  };
}

/** Ensures that the simulation creates records only in the specified organization. */
function assertOrganization(organization: string, provider: string, { org }: IntegrationInput): void {
  if (org !== organization)
    throw new UserError(`${provider} is configured for organization "${organization}", not "${org}"`);
}

function firstOf(secrets: readonly string[], provider: string): string {
  const [secret] = secrets;
  if (secret === undefined) throw new UserError(`${provider} is off because it has no secret in config.yaml`);
  return secret;
}

async function prepareChannel(
  provider: string,
  { simulation, bodyLimit }: Channel,
  { channels: all, org, endpoint, secret }: IntegrationInput,
  access: InstanceAccess | undefined,
): Promise<PreparedSimulation> {
  if (simulation === undefined)
    throw new UserError(`The channel "${provider}" cannot be simulated: it has no "simulation".`);
  // The large text still fits into a delivery together with its envelope.
  const script: Script = { ...simulation, large: { bytes: Math.floor(bodyLimit * 0.7), isAccepted: true } };
  if (access === undefined) {
    if (endpoint === undefined || secret === undefined) {
      throw new UserError(
        "That server's database is not available here. Pass --endpoint and --secret-stdin.",
      );
    }
    return { script, path: endpointPath(provider, endpoint), secret, countStored: async () => ({}) };
  }
  const { tables, sealed } = access;
  const organization = await organizationId(tables, org);
  const [match] = await listRows(tables, integrationRows(all), organization, {
    where: [
      sql`i.enabled and i.provider = ${provider}`,
      ...(endpoint === undefined ? [] : [sql`i.endpoint = ${endpoint}`]),
    ],
    limit: 1,
  });
  const integration = match && (await openIntegration(tables, sealed, { organization, id: match.id }));
  if (integration === undefined) {
    throw new UserError(
      `"${org}" has no enabled ${provider} integration. Add one under Setup, Integrations.`,
    );
  }
  return {
    script,
    path: endpointPath(provider, integration.endpoint),
    secret: secret ?? integration.secret,
    countStored: countInbox(organization, integration.id),
  };
}

/** Maximum number of IDs per statement, because the number of parameters is limited. */
const chunkSize = 1000;

const countInbox =
  (organization: string, integration: string): PreparedSimulation['countStored'] =>
  async ({ tables }, ids) => {
    const counts: Record<string, number> = {};
    for (let start = 0; start < ids.length; start += chunkSize) {
      const rows = await tables
        .selectFrom('crm_inbox')
        .select((candidate) => ['status', candidate.fn.countAll<string>().as('count')])
        .where('organization_id', '=', organization)
        .where('integration_id', '=', integration)
        .where('event_id', 'in', ids.slice(start, start + chunkSize))
        .groupBy('status')
        .execute();
      for (const { status, count } of rows) counts[status] = (counts[status] ?? 0) + Number(count);
    }
    return counts;
  };

/** Counts events by state. Events without a state have not been stored. */
async function countStates(
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

const countLeads =
  (slug: string): PreparedSimulation['countStored'] =>
  async (access, emails) => {
    const organization = await organizationId(access.tables, slug);
    const partner = { organization, requestId: '', name: 'simulate' };
    return countStates(emails, ['leads'], async (email) => {
      const match = await changingPartnerRecords(access, partner, (records) =>
        records.find('leads', ['email', email]),
      );
      return match === undefined ? undefined : 'leads';
    });
  };

const countMessages =
  (slug: string): PreparedSimulation['countStored'] =>
  async ({ tables }, ids) => {
    const organization = await organizationId(tables, slug);
    return countStates(ids, [], async (id) => {
      const row = await tables
        .selectFrom('crm_messages')
        .select('status')
        .where('organization_id', '=', organization)
        .where('body', 'like', `${id} %`)
        .executeTakeFirst();
      return row?.status;
    });
  };

const countPayments =
  (slug: string, customer: string): PreparedSimulation['countStored'] =>
  async ({ tables }, ids) => {
    const organization = await organizationId(tables, slug);
    return countStates(ids, ['matched', 'unmatched'], async (id) => {
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
