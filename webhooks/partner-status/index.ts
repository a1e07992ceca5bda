// Partner status: shows which partner endpoints are on, off or misconfigured.
// May import engine, plugins, settings, endpoint, inbound-leads, booking-forms, payments.

export { partnerStatusModule } from './module.ts';
