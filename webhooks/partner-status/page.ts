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

/** Payments without a lead that are shown. */
const maxPayments = 500;

/** A read-only page: the state of the partner endpoints, and payments without a lead. */
export function partnerPage(app: FastifyInstance, { database, settings }: WebhookServices): void {
  /** Those that concern an organization: other organizations' customers are not shown. */
  const endpointsOf = async ({ membership: { slug, formerSlugs } }: CurrentMember) =>
    (await partnerStatus(tablesOf(database), settings.current)).filter(
      ({ organization }) => organization === null || [slug, ...formerSlugs].includes(organization),
    );
  addHomeCheck(app, async (member) => {
    const { slug } = member.membership;
    const partners = { label: 'Show partners', href: `/setup/o/${slug}/partners` };
    const wrong = (await endpointsOf(member)).filter(({ state }) => state === 'misconfigured');
    return [
      ...(settings.problem === undefined
        ? []
        : [
            {
              state: 'bad' as const,
              text: `The last change of config.yaml is refused, and the one before is in force: ${settings.problem}`,
            },
          ]),
      ...wrong.map(({ name, problem }) => ({
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
      const unmatched = await unmatchedPayments(tables, organization, maxPayments);
      const path = `/setup/o/${slug}/partners`;
      const isPayments = parametersOf(request).show === 'payments';
      const chips = [
        { label: 'Endpoints', href: path, current: !isPayments },
        {
          label: `Payments without a lead (${unmatched.length})`,
          href: linkWithParameters(path, {}, { show: 'payments' }),
          current: isPayments,
        },
      ];
      if (isPayments) {
        const page = listing(request, unmatched, {
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
            { title: 'What was sent', cell: ({ payload }) => ({ code: payload }) },
          ],
          row: ({ customer, eventId }) => ({ id: `${customer} ${eventId}` }),
          empty: { text: 'Every payment that was reported has found its lead.' },
        });
        return {
          ...page,
          chips,
          intro: 'They were acknowledged, and no lead had their e-mail address, number or id.',
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
        empty: { text: 'Partners send leads and payments, or ask for messages.' },
      });
      return { ...page, chips, intro: 'Endpoints are switched on in config.yaml, by their secrets.' };
    },
    actions: {},
  });
}

const states = {
  on: { text: 'on', state: 'good' },
  off: { text: 'off (501)', state: 'quiet' },
  misconfigured: { text: 'misconfigured', state: 'bad' },
} as const;

const stateOf = ({ state, problem }: EndpointStatus): DisplayValue => ({
  ...states[state],
  below: problem === '' ? null : problem,
});

const usesOf = (secrets: EndpointStatus['secrets']): string =>
  secrets
    .map(
      ({ place, last_used_at }) =>
        `no. ${place}: ${last_used_at === null ? 'never' : `${last_used_at.slice(0, 16).replace('T', ' ')} UTC`}`,
    )
    .join(', ') || 'none';
