// Payments: payment hooks, configured in config.yaml.
// May import engine, settings, endpoint.

export {
  customerOf,
  hookOf,
  paymentPath,
  paymentsModule,
  type UnmatchedPayment,
  unmatchedPayloads,
  unmatchedPayments,
} from './payments.ts';
