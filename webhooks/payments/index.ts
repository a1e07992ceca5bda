// Payments: payment hooks, each as its entry in config.yaml says.
// May import engine, settings, endpoint.

export { customerOf, hookOf, paymentPath, paymentsModule, unmatchedPayments } from './payments.ts';
