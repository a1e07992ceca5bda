import type { FastifyInstance } from 'fastify';
import { isServed } from '../../engine/modules/index.ts';
import { countRows, tablesOf } from '../../engine/tables/index.ts';
import {
  addHomeCheck,
  type CurrentMember,
  type DisplayValue,
  type ListDefinition,
  linkWithParameters,
  type ObjectContext,
  type ObjectServices,
  parametersOf,
  section,
  sectionList,
} from '../../plugins/admin-ui/shell/index.ts';
import type { WebhookServices } from '../endpoint/index.ts';
import { paymentsModule, type UnmatchedPayment, unmatchedPayments } from '../payments/index.ts';
import { type EndpointStatus, partnerStatus } from './status.ts';
import { partnersTexts } from './texts/index.ts';

/** Payments without a lead. */
const payments: ListDefinition<UnmatchedPayment, ObjectContext<ObjectServices>> = {
  plural: 'payments',
  source: unmatchedPayments,
  intro: () => 'These payments were accepted, but no lead has their email address, phone number or ID.',
  columns: [
    { title: 'Event', cell: ({ eventId }) => ({ code: eventId }), by: 'e.event_id' },
    { title: 'Customer', cell: ({ customer }) => ({ text: customer }), by: 'lower(e.customer)' },
    { title: 'Received', cell: ({ receivedAt }) => ({ time: receivedAt }), by: 'e.received_at' },
    { title: 'Payload', cell: ({ payload }) => ({ code: payload }) },
  ],
  empty: 'All reported payments matched a lead.',
};

/** Adds a read-only page that shows the partner endpoints' status and payments without a lead. */
export function partnerPage(
  app: FastifyInstance,
  { database, settings, retiredResources = [] }: WebhookServices,
): void {
  const hasPayments = isServed(paymentsModule, retiredResources);
  /** Returns the endpoints relevant to an organization, without other organizations' payment hooks. */
  const endpointsOf = async ({ membership: { slug, formerSlugs } }: CurrentMember) =>
    (await partnerStatus(tablesOf(database), settings.current, retiredResources)).filter(
      ({ organization }) => organization === null || [slug, ...formerSlugs].includes(organization),
    );
  addHomeCheck(app, async (member, language) => {
    const t = partnersTexts(language);
    const { slug } = member.membership;
    const partners = { label: t('showPartners'), href: `/setup/o/${slug}/partners` };
    const misconfigured = (await endpointsOf(member)).filter(({ state }) => state === 'misconfigured');
    return [
      ...(settings.problem === undefined
        ? []
        : [
            {
              state: 'bad' as const,
              text: t('invalidSettings', { problem: settings.problem }),
            },
          ]),
      ...misconfigured.map(({ name, problem }) => ({
        state: 'bad' as const,
        text: t('misconfigured', { name, problem }),
        link: partners,
      })),
    ];
  });
  const listPayments = sectionList(app, { database }, payments, 'partners', 'payments');
  section(app, database, {
    name: 'partners',
    title: partnersTexts.later('partners'),
    group: 'Integrations',
    icon: 'handshake',
    load: async (member, request, language) => {
      const { organization, slug } = member.membership;
      const path = `/setup/o/${slug}/partners`;
      const isPayments = hasPayments && parametersOf(request).show === 'payments';
      const unmatched = await countRows(tablesOf(database), unmatchedPayments, organization);
      const chips = [
        { label: 'Endpoints', href: path, current: !isPayments },
        ...(hasPayments
          ? [
              {
                label: `Payments without a lead (${unmatched})`,
                href: linkWithParameters(path, {}, { show: 'payments' }),
                current: isPayments,
              },
            ]
          : []),
      ];
      if (isPayments) return { ...(await listPayments(member, request, language)), chips };
      return {
        chips,
        intro: 'To enable an endpoint, set its secret in config.yaml.',
        columns: ['Endpoint', 'Path', 'State', 'Secrets, last used'].map((title) => ({ title })),
        rows: (await endpointsOf(member)).map((endpoint) => ({
          id: endpoint.name,
          cells: [
            { text: endpoint.name },
            { code: endpoint.path },
            stateOf(endpoint),
            { text: usesOf(endpoint.secrets) },
          ],
        })),
        empty: { text: 'Partners can send leads and payments, and request messages.' },
      };
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
