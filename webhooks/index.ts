// Webhooks: partner endpoints and what they need (secrets, senders, templates), one file for each.
// May import every room of engine/ but cli and app, and plugins/.
import type { FastifyInstance } from 'fastify';
import type { Fragment, Resource } from '../engine/compile/index.ts';
import type { Config } from '../engine/config.ts';
import type { Database } from '../engine/database/index.ts';
import { bookingForms, bookingFormsFragment } from './booking-forms-whatsapp.ts';
import { channelEndpoints } from './channel-endpoints.ts';
import { inboundLeads, inboundLeadsFragment } from './inbound-leads.ts';
import { payments } from './payments.ts';
import { type SecretUse, secretUse } from './secret-use.ts';
import type { LiveSettings } from './settings/index.ts';
import { type WrongSecrets, wrongSecrets } from './wrong-secrets.ts';

/** What every endpoint needs of the instance. */
export interface Webhooks {
  readonly config: Config;
  readonly database: Database;
  readonly resources: readonly Resource[];
  readonly settings: LiveSettings;
  /** Notes which secret was used, so that an old one can be removed when nobody uses it. */
  readonly used: SecretUse;
  /** Counts wrong secrets, so that an address that guesses is told to wait. */
  readonly wrong: WrongSecrets;
  readonly log: (details: object, text: string) => void;
}

/** Every endpoint; its name in this list is all that a new one needs. */
const endpoints = [inboundLeads, bookingForms, payments, channelEndpoints];

/** The partner endpoints (contract section 4.2 to 4.5). */
export async function webhooks(
  app: FastifyInstance,
  instance: Omit<Webhooks, 'used' | 'wrong' | 'log'>,
): Promise<void> {
  const used = secretUse(app, instance.database);
  const wrong = wrongSecrets();
  const log = (details: object, text: string) => app.log.info(details, text);
  for (const endpoint of endpoints) endpoint(app, { ...instance, used, wrong, log });
}

/** What the OpenAPI document says of them. Payment hooks are their customers' own and not described. */
export const partnerFragment: Fragment = {
  tag: {
    name: 'partners',
    description:
      'Endpoints for partners, outside of /api/v1, each with a secret of its own. An organization API key does not open them.',
  },
  paths: { ...inboundLeadsFragment, ...bookingFormsFragment },
  schemas: {},
  securitySchemes: {
    inboundSecret: {
      type: 'apiKey',
      in: 'header',
      name: 'X-Inbound-Secret',
      description: 'The inbound-lead secret.',
    },
    partnerToken: {
      type: 'http',
      scheme: 'bearer',
      description: "A partner endpoint's own secret, from the instance's configuration.",
    },
  },
};

export { webhookPages } from './setup/index.ts';
