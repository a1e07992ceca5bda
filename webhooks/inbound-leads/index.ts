// Inbound leads: leads created by ad, newsletter and form tools.
// May import engine, plugins, endpoint.

import type { FastifyInstance } from 'fastify';
import type { Fragment } from '../../engine/compile/index.ts';
import type { FieldRequirements } from '../../engine/definition/index.ts';
import { errors } from '../../engine/errors.ts';
import { json, rejectOtherMethods } from '../../engine/http/index.ts';
import type { DescribedCode, Module } from '../../engine/modules/index.ts';
import { readBody } from '../../engine/records/index.ts';
import { findOrganization, tablesOf } from '../../engine/tables/index.ts';
import { bearerOf } from '../../plugins/access/identity/index.ts';
import {
  createPartnerRecord,
  matchesAnySecret,
  requestOf,
  secretScheme,
  stringFields,
  success,
  type WebhookServices,
  type Webhooks,
  writeFailure,
} from '../endpoint/index.ts';

export const inboundLeadsPath = '/webhooks/inbound-leads';
const fields = {
  first_name: 'First name.',
  last_name: 'Last name.',
  email: 'Email address.',
  company: 'Company.',
  phone: 'Phone number.',
  source: 'Where the lead came from, stored as sent.',
  campaign_name: 'Name of the campaign, appended to the description.',
  description: 'Additional information.',
} as const;
/** Fields that identify a lead. At least one of them is required. */
const identifyingFields = ['first_name', 'last_name', 'email'] as const;

const text = { types: ['string', 'text'], writable: true } as const;
/** Lead fields written by this endpoint. The campaign name becomes part of the description. */
const needs: FieldRequirements = {
  file: 'webhooks/inbound-leads/index.ts',
  resource: 'leads',
  fields: Object.fromEntries(
    Object.keys(fields)
      .filter((name) => name !== 'campaign_name')
      .map((name) => [name, text]),
  ),
};

/** Registers POST /webhooks/inbound-leads, which ad, newsletter and form tools call to create leads. */
function inboundLeads(
  app: FastifyInstance,
  { settings, database, resources, secretUse, wrongSecrets }: Webhooks,
): void {
  app.post(inboundLeadsPath, {
    // The configuration (501) and the secret (401) are checked before the body is read.
    onRequest: async (request) => {
      const { secrets } = settings.current.partners.inbound_leads;
      if (secrets.length === 0) throw errors.notConfigured();
      const candidates = [
        ...[request.headers['x-inbound-secret'] ?? []].flat(),
        ...[bearerOf(request.headers.authorization) ?? []].flat(),
      ];
      if (candidates.length === 0) throw errors.unauthenticated();
      // If both headers are sent, both must be valid. A caller that sends two different secrets is
      // misconfigured.
      if (!candidates.every((secret) => matchesAnySecret(secret, secrets))) {
        throw await wrongSecrets.errorFor(request, inboundLeadsPath);
      }
      if (request.headers.authorization !== undefined && !/^Bearer /i.test(request.headers.authorization)) {
        throw errors.unauthenticated();
      }
      secretUse.record('inbound_leads', candidates[0] ?? '');
    },
    handler: async (request, reply) => {
      const body = stringFields(readBody(request.headers['content-type'], request.body), Object.keys(fields));
      if (identifyingFields.every((name) => (body[name] ?? '').trim() === '')) {
        throw errors.invalidItem(`at least one of ${identifyingFields.join(', ')} is required`);
      }
      const slug = request.headers['x-org-slug']?.toString();
      const organization = await findOrganization(tablesOf(database), slug);
      if (organization === undefined) throw errors.notFound();
      request.owner = organization;
      const { campaign_name = '', description = '', ...lead } = body;
      const campaign = campaign_name === '' ? '' : `Campaign: ${campaign_name}`;
      const partner = { organization, requestId: request.id, name: 'inbound-leads' };
      const id = await createPartnerRecord({ database, resources }, partner, 'leads', {
        ...lead,
        description: [description, campaign].filter((part) => part !== '').join('\n'),
      });
      reply.code(201).header('content-type', json).header('cache-control', 'no-store');
      return `{"ok":true,"id":${id}}`;
    },
  });
  rejectOtherMethods(app, inboundLeadsPath, ['POST']);
}

/** Returns the OpenAPI description of the inbound leads endpoint. */
const pathsFor = (instance: DescribedCode): NonNullable<Fragment['paths']> => ({
  [inboundLeadsPath]: {
    post: {
      operationId: 'createInboundLead',
      summary: 'Create a lead from an ad, newsletter or form tool',
      description:
        'Creates a lead. Send the secret for inbound leads as `X-Inbound-Secret` or as `Authorization: Bearer`.',
      tags: ['partners'],
      security: [secretScheme('inboundSecret'), secretScheme('partnerToken')],
      parameters: [
        {
          name: 'X-Org-Slug',
          in: 'header',
          description: "The organization's slug. Default: the organization with the lowest ID.",
          schema: { type: 'string' },
        },
      ],
      requestBody: requestOf(fields, `At least one of ${identifyingFields.join(', ')}.`, {
        first_name: 'Annika',
        last_name: 'Petersen',
        email: 'annika.petersen@nordlicht-energie.example',
        source: 'Website',
        campaign_name: 'Spring newsletter',
      }),
      responses: {
        201: success(
          'The lead was created.',
          { ok: { type: 'boolean', const: true }, id: { type: 'integer', format: 'int64' } },
          { ok: true, id: 1 },
        ),
        ...writeFailure(instance, 400, 401, 403, 404, 409, 413, 429, 500, 501, 503),
      },
    },
  },
});

/** Receives leads from ad, newsletter and form tools. */
export const inboundLeadsModule: Module<WebhookServices> = {
  name: 'inbound-leads',
  openApi: (_definitions, instance) => ({ paths: pathsFor(instance) }),
  needs: [needs],
  register: (app) => inboundLeads(app, app.webhooks),
};
