// Setup pages of partners and channels. May import the rest of webhooks/, and plugins/setup for what every page has.
import type { FastifyInstance } from 'fastify';
import type { Webhooks } from '../index.ts';
import { deliveryPages } from './deliveries.ts';
import { integrationPages } from './integrations.ts';
import { partnerPage } from './partners.ts';

/** What these pages need of the instance. */
export type PageNeeds = Pick<Webhooks, 'config' | 'database' | 'settings'>;

/** Integrations, their deliveries, and the state of partner endpoints. */
export const webhookPages =
  (needs: PageNeeds) =>
  (app: FastifyInstance): void => {
    integrationPages(app, needs);
    deliveryPages(app, needs);
    partnerPage(app, needs);
  };
