import type { FastifyInstance } from 'fastify';
import { isServed } from '../../engine/modules/index.ts';
import { countRows, findRow, tablesOf } from '../../engine/tables/index.ts';
import {
  addHomeCheck,
  type CurrentMember,
  type DisplayValue,
  idField,
  type Language,
  type ListDefinition,
  linkWithParameters,
  type ObjectContext,
  type ObjectServices,
  parametersOf,
  section,
  sectionList,
  TranslatedError,
} from '../../plugins/admin-ui/shell/index.ts';
import type { WebhookServices } from '../endpoint/index.ts';
import {
  paymentsModule,
  type UnmatchedPayment,
  unmatchedPayloads,
  unmatchedPayments,
} from '../payments/index.ts';
import { type EndpointStatus, partnerStatus } from './status.ts';
import { partnersTexts } from './texts/index.ts';

const { later } = partnersTexts;

/** Payments without a lead. */
const payments: ListDefinition<UnmatchedPayment, ObjectContext<ObjectServices>> = {
  plural: later('payments'),
  source: unmatchedPayments,
  intro: ({ language }) => later('paymentsIntro')(language),
  columns: [
    { title: later('event'), cell: ({ eventId }) => ({ code: eventId }), by: 'e.event_id' },
    { title: later('customer'), cell: ({ customer }) => ({ text: customer }), by: 'lower(e.customer)' },
    { title: later('received'), cell: ({ receivedAt }) => ({ time: receivedAt }), by: 'e.received_at' },
    {
      title: later('payload'),
      cell: ({ payload, isTruncated }) => ({ code: isTruncated ? `${payload}…` : payload }),
    },
  ],
  menu: ({ id, eventId, isTruncated }, { language, urlOf }) => {
    if (!isTruncated) return {};
    const t = partnersTexts(language);
    const href = linkWithParameters(urlOf('value'), { id }, {});
    return { links: [{ label: t('showPayload'), name: t('showPayloadOf', { event: eventId }), href }] };
  },
  empty: later('noPayments'),
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
        text: t('misconfigured', { name, problem: problem?.(language) ?? '' }),
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
    isTranslated: true,
    load: async (member, request, language) => {
      const t = partnersTexts(language);
      const { organization, slug } = member.membership;
      const path = `/setup/o/${slug}/partners`;
      const isPayments = hasPayments && parametersOf(request).show === 'payments';
      const unmatched = await countRows(tablesOf(database), unmatchedPayments, organization);
      const chips = [
        { label: t('endpoints'), href: path, current: !isPayments },
        ...(hasPayments
          ? [
              {
                label: t('unmatchedPayments', { number: String(unmatched) }),
                href: linkWithParameters(path, {}, { show: 'payments' }),
                current: isPayments,
              },
            ]
          : []),
      ];
      if (isPayments) return { ...(await listPayments(member, request, language)), chips };
      return {
        chips,
        intro: t('endpointsIntro'),
        columns: [t('endpoint'), t('path'), t('state'), t('secrets')].map((title) => ({ title })),
        rows: (await endpointsOf(member)).map((endpoint) => ({
          id: endpoint.name,
          cells: [
            { text: endpoint.name },
            { code: endpoint.path },
            stateOf(endpoint, language),
            { text: usesOf(endpoint.secrets, language) },
          ],
        })),
        empty: { text: t('noEndpoints') },
      };
    },
    wholeValues: {
      value: async ({ membership: { organization } }, { form }) => {
        const payment = await findRow(
          tablesOf(database),
          unmatchedPayloads,
          organization,
          idField(form, 'id'),
        );
        if (payment === undefined) throw new TranslatedError(later('missingPayment'));
        return payment.payload;
      },
    },
    actions: {},
  });
}

const states = {
  on: { label: later('on'), state: 'good' },
  off: { label: later('off'), state: 'quiet' },
  misconfigured: { label: later('misconfiguredState'), state: 'bad' },
} as const;

function stateOf({ state, problem }: EndpointStatus, language: Language): DisplayValue {
  const { label, ...look } = states[state];
  return { text: label(language), ...look, below: problem?.(language) ?? null };
}

/** Returns when each secret was last used. */
function usesOf(secrets: EndpointStatus['secrets'], language: Language): string {
  const t = partnersTexts(language);
  if (secrets.length === 0) return t('noSecrets');
  return secrets
    .map(({ place, last_used_at }) => {
      const time = last_used_at === null ? t('never') : `${last_used_at.slice(0, 16).replace('T', ' ')} UTC`;
      return `#${place}: ${time}`;
    })
    .join(', ');
}
