// payments:
// May import

export { customerOf, hookOf, paymentPath, paymentsModule, unmatchedPayments } from './payments.ts';
