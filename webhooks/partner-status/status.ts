import { organizationSlugs, type Tables } from '../../engine/tables/index.ts';
import { bookingFormsPath } from '../booking-forms/index.ts';
import { fingerprint, ownProperty, secretUses } from '../endpoint/index.ts';
import { inboundLeadsPath } from '../inbound-leads/index.ts';
import { hookOf, paymentPath } from '../payments/index.ts';
import type { Settings } from '../settings/index.ts';

/** The current state of a partner endpoint. */
export interface EndpointStatus {
  /** Its name in config.yaml. */
  readonly name: string;
  readonly path: string;
  /** `off` responds 501. */
  readonly state: 'on' | 'off' | 'misconfigured';
  /** Why it cannot work although it has a secret; `''` if it can. */
  readonly problem: string;
  /** Slug of the organization it is bound to; null if the caller names one. */
  readonly organization: string | null;
  /** Its secrets by their place in the list, each with its last use in RFC 3339, or null. Never the secrets. */
  readonly secrets: readonly { readonly place: number; readonly last_used_at: string | null }[];
}

/** The state of every partner endpoint, from the settings and the stored last uses. */
export async function partnerStatus(tables: Tables, settings: Settings): Promise<EndpointStatus[]> {
  const { inbound_leads, booking_forms_whatsapp, payments } = settings.partners;
  const known = new Set(await organizationSlugs(tables));
  const uses = await secretUses(tables);
  const status = (
    name: string,
    path: string,
    secrets: readonly string[],
    organization: string | null,
    problem: string,
  ): EndpointStatus => ({
    name,
    path,
    organization,
    state: secrets.length === 0 ? 'off' : problem === '' ? 'on' : 'misconfigured',
    problem: secrets.length === 0 ? '' : problem,
    secrets: secrets.map((secret, index) => ({
      place: index + 1,
      last_used_at: uses.get(`${name} ${fingerprint(secret)}`)?.toISOString() ?? null,
    })),
  });
  const missing = (slug: string) => (known.has(slug) ? '' : `there is no organization "${slug}"`);
  const sending = booking_forms_whatsapp.organization;
  return [
    status(
      'inbound_leads',
      inboundLeadsPath,
      inbound_leads.secrets,
      null,
      known.size === 0 ? 'there is no organization' : '',
    ),
    status(
      'booking_forms_whatsapp',
      bookingFormsPath,
      booking_forms_whatsapp.secrets,
      sending,
      missing(sending) || senderProblem(settings, sending),
    ),
    ...Object.entries(payments).map(([customer, { organization, verify }]) =>
      status(
        `payments.${customer}`,
        paymentPath(hookOf(customer)),
        verify.secrets,
        organization,
        missing(organization),
      ),
    ),
  ];
}

/** Why an organization cannot send messages; `''` if it can. */
function senderProblem({ messaging }: Settings, slug: string): string {
  const sender = ownProperty(messaging, slug);
  if (sender === undefined) return `messaging has no sender for "${slug}"`;
  if (sender.sender === 'whatsapp_cloud') {
    if ((sender.phone_number_id ?? '').trim() === '') return `messaging.${slug}.phone_number_id is blank`;
    if ((sender.access_token ?? '').trim() === '') return `messaging.${slug}.access_token is blank`;
  }
  return '';
}
