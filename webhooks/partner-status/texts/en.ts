import type { Catalogue } from '../../../plugins/admin-ui/shell/index.ts';

/** English texts of the page about partner endpoints. */
export default {
  partners: 'Partners',
  showPartners: 'Show partners',
  invalidSettings:
    'The last change to config.yaml is invalid, so the previous settings are still in use: {problem}',
  misconfigured: '{name} is misconfigured: {problem}.',
  // Endpoints
  endpoints: 'Endpoints',
  endpointsIntro: 'To enable an endpoint, set its secret in config.yaml.',
  endpoint: 'Endpoint',
  path: 'Path',
  state: 'State',
  secrets: 'Secrets, last used',
  noEndpoints: 'Partners can send leads and payments, and request messages.',
  on: 'On',
  off: 'Off (501)',
  misconfiguredState: 'Misconfigured',
  never: 'never',
  noSecrets: 'none',
  missingOrganization: 'organization "{slug}" does not exist',
  noOrganization: 'no organization exists',
  noSender: 'messaging has no sender for "{slug}"',
  noIntegration: '"{slug}" has no enabled integration with {sender}',
  isBlank: '{setting} is blank',
  // Payments
  payments: 'payments',
  unmatchedPayments: 'Payments without a lead ({number})',
  paymentsIntro: 'These payments were accepted, but no lead has their email address, phone number or ID.',
  event: 'Event',
  customer: 'Customer',
  received: 'Received',
  payload: 'Payload',
  showPayload: 'Show full payload',
  showPayloadOf: 'Show full payload of {event}',
  missingPayment: 'this payment does not exist in this organization, or it has matched a lead',
  noPayments: 'All reported payments matched a lead.',
} as const satisfies Catalogue;
