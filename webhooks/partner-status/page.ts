import type { FastifyInstance } from 'fastify';
import { tablesOf } from '../../engine/tables/index.ts';
import {
  addHomeCheck,
  type CurrentMember,
  type DisplayValue,
  linkWithParameters,
  listing,
  parametersOf,
  section,
} from '../../plugins/admin-ui/shell/index.ts';
import type { WebhookServices } from '../endpoint/index.ts';
import { unmatchedPayments } from '../payments/index.ts';
import { type EndpointStatus, partnerStatus } from './status.ts';

/** Maximum number of unmatched payments shown on the page. */
const maxPayments = 500;

/** Adds a read-only page with the status of the partner endpoints and the payments without a lead. */
export function partnerPage(app: FastifyInstance, { database, settings }: WebhookServices): void {
  /** Returns the endpoints relevant to an organization, without the payment hooks of other organizations. */
  const endpointsOf = async ({ membership: { slug, formerSlugs } }: CurrentMember) =>
    (await partnerStatus(tablesOf(database), settings.current)).filter(
      ({ organization }) => organization === null || [slug, ...formerSlugs].includes(organization),
    );
  addHomeCheck(app, async (member) => {
    const { slug } = member.membership;
    const partners = { label: 'Show partners', href: `/setup/o/${slug}/partners` };
    const misconfigured = (await endpointsOf(member)).filter(({ state }) => state === 'misconfigured');
    return [
      ...(settings.problem === undefined
        ? []
        : [
            {
              state: 'bad' as const,
              text: `The last change to config.yaml is invalid, so the previous settings are still in use: ${settings.problem}`,
            },
          ]),
      ...misconfigured.map(({ name, problem }) => ({
        state: 'bad' as const,
        text: `${name} cannot work: ${problem}.`,
        link: partners,
      })),
    ];
  });
  section(app, database, {
    name: 'partners',
    title: 'Partners',
    load: async (member, request) => {
      const { organization, slug } = member.membership;
      const tables = tablesOf(database);
      const endpoints = await endpointsOf(member);
      const unmatchedItems = await unmatchedPayments(tables, organization, maxPayments);
      const path = `/setup/o/${slug}/partners`;
      const isPayments = parametersOf(request).show === 'payments';
      const chips = [
        { label: 'Endpoints', href: path, current: !isPayments },
        {
          label: `Payments without a lead (${unmatchedItems.length})`,
          href: linkWithParameters(path, {}, { show: 'payments' }),
          current: isPayments,
        },
      ];
      if (isPayments) {
        const page = listing(request, unmatchedItems, {
          searchLabel: 'Search payments',
          text: ({ customer, eventId, payload }) => `${customer} ${eventId} ${payload}`,
          columns: [
            { title: 'Event', cell: ({ eventId }) => ({ code: eventId }), by: ({ eventId }) => eventId },
            {
              title: 'Customer',
              cell: ({ customer }) => ({ text: customer }),
              by: ({ customer }) => customer,
            },
            {
              title: 'Received',
              cell: ({ receivedAt }) => ({ time: receivedAt }),
              by: ({ receivedAt }) => Number(receivedAt),
            },
            { title: 'Payload', cell: ({ payload }) => ({ code: payload }) },
          ],
          row: ({ customer, eventId }) => ({ id: `${customer} ${eventId}` }),
          empty: { text: 'All reported payments matched a lead.' },
        });
        return {
          ...page,
          chips,
          intro: 'These payments were accepted, but no lead has their email address, phone number or ID.',
        };
      }
      const page = listing(request, endpoints, {
        searchLabel: 'Search endpoints',
        text: ({ name, path: address }) => `${name} ${address}`,
        columns: [
          { title: 'Endpoint', cell: ({ name }) => ({ text: name }), by: ({ name }) => name },
          { title: 'Path', cell: ({ path: address }) => ({ code: address }) },
          { title: 'State', cell: stateOf, by: ({ state }) => state },
          { title: 'Secrets, last used', cell: ({ secrets }) => ({ text: usesOf(secrets) }) },
        ],
        row: ({ name }) => ({ id: name }),
        empty: { text: 'Partners can send leads and payments, and request messages.' },
      });
      return { ...page, chips, intro: 'To enable an endpoint, set its secret in config.yaml.' };
    },
    actions: {},
  });
}

const states = {
  on: { text: 'On', state: 'good' },
  off: { text: 'Off (501)', state: 'quiet' },
  misconfigured: { text: 'Misconfigured', state: 'bad' },
} as const;

const stateOf = ({ state, problem }: EndpointStatus): DisplayValue => ({
  ...states[state],
  below: problem === '' ? null : problem,
});

const usesOf = (secrets: EndpointStatus['secrets']): string =>
  secrets
    .map(
      ({ place, last_used_at }) =>
        `#${place}: ${last_used_at === null ? 'never' : `${last_used_at.slice(0, 16).replace('T', ' ')} UTC`}`,
    )
    .join(', ') || 'none';
