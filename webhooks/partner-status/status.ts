import { isServed } from '../../engine/modules/index.ts';
import { findOrganization, organizationSlugs, slugsOf, type Tables } from '../../engine/tables/index.ts';
import type { TextIn } from '../../plugins/admin-ui/shell/index.ts';
import { bookingFormsPath } from '../booking-forms/index.ts';
import { fingerprint, secretUses } from '../endpoint/index.ts';
import { inboundLeadsModule, inboundLeadsPath } from '../inbound-leads/index.ts';
import { hookOf, paymentPath } from '../payments/index.ts';
import { ownSenders, type Settings } from '../settings/index.ts';
import { partnersTexts } from './texts/index.ts';

const { later } = partnersTexts;

/** A partner endpoint's status. */
export interface EndpointStatus {
  /** The endpoint's name in config.yaml. */
  readonly name: string;
  readonly path: string;
  /** An endpoint that is `off` responds with 501. */
  readonly state: 'on' | 'off' | 'misconfigured';
  /** Why the endpoint cannot work even though it has a secret, or undefined if it works. */
  readonly problem: TextIn | undefined;
  /** Slug of the endpoint's organization, or null if each request specifies it. */
  readonly organization: string | null;
  /** Each secret's position (starting at 1) and last use (RFC 3339), but not the secret. */
  readonly secrets: readonly { readonly place: number; readonly last_used_at: string | null }[];
}

/**
 * Returns the status of the partner endpoints that the instance serves, based on the settings and the stored last-use times.
 * @param retired the retired resources
 */
export async function partnerStatus(
  tables: Tables,
  settings: Settings,
  retired: readonly { readonly name: string }[] = [],
): Promise<EndpointStatus[]> {
  const { inbound_leads, booking_forms_whatsapp, payments } = settings.partners;
  const slugs = new Set(await organizationSlugs(tables));
  const uses = await secretUses(tables);
  const status = (
    name: string,
    path: string,
    secrets: readonly string[],
    organization: string | null,
    problem: TextIn | undefined,
  ): EndpointStatus => ({
    name,
    path,
    organization,
    state: secrets.length === 0 ? 'off' : problem === undefined ? 'on' : 'misconfigured',
    problem: secrets.length === 0 ? undefined : problem,
    secrets: secrets.map((secret, index) => ({
      place: index + 1,
      last_used_at: uses.get(`${name} ${fingerprint(secret)}`)?.toISOString() ?? null,
    })),
  });
  const missingProblem = (slug: string) =>
    slugs.has(slug) ? undefined : later('missingOrganization', { slug });
  const senderSlug = booking_forms_whatsapp.organization;
  return [
    ...(isServed(inboundLeadsModule, retired)
      ? [
          status(
            'inbound_leads',
            inboundLeadsPath,
            inbound_leads.secrets,
            null,
            slugs.size === 0 ? later('noOrganization') : undefined,
          ),
        ]
      : []),
    status(
      'booking_forms_whatsapp',
      bookingFormsPath,
      booking_forms_whatsapp.secrets,
      senderSlug,
      missingProblem(senderSlug) ?? (await senderProblem(tables, settings, senderSlug)),
    ),
    ...Object.entries(payments).map(([customer, { organization, verify }]) =>
      status(
        `payments.${customer}`,
        paymentPath(hookOf(customer)),
        verify.secrets,
        organization,
        missingProblem(organization),
      ),
    ),
  ];
}

/** Returns the reason an organization cannot send messages, or undefined if it can. */
async function senderProblem(
  tables: Tables,
  { messaging }: Settings,
  slug: string,
): Promise<TextIn | undefined> {
  const organization = await findOrganization(tables, slug);
  // The sender can also have another slug of the organization, current or former.
  const slugs = organization === undefined ? [] : await slugsOf(tables, organization);
  const own = slugs.find((each) => Object.hasOwn(messaging, each));
  const sender = own === undefined ? undefined : messaging[own];
  if (organization === undefined || sender === undefined) return later('noSender', { slug });
  if (!ownSenders.includes(sender.sender)) {
    const integration = await tables
      .selectFrom('crm_integrations')
      .select('id')
      .where('organization_id', '=', organization)
      .where('provider', '=', sender.sender)
      .where('enabled', '=', true)
      .limit(1)
      .executeTakeFirst();
    if (integration === undefined) return later('noIntegration', { slug, sender: sender.sender });
  }
  if (sender.sender === 'whatsapp_cloud') {
    if ((sender.phone_number_id ?? '').trim() === '')
      return later('isBlank', { setting: `messaging.${own}.phone_number_id` });
    if ((sender.access_token ?? '').trim() === '')
      return later('isBlank', { setting: `messaging.${own}.access_token` });
  }
  return undefined;
}
