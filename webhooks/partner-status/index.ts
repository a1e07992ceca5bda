// Partner status: shows which partner endpoints are on, off or misconfigured.
// May import engine, plugins, settings, endpoint, inbound-leads, booking-forms, payments.

import type { Database } from '../../engine/database/index.ts';
import type { Module } from '../../engine/modules/index.ts';
import type { WebhookServices } from '../endpoint/index.ts';
import type { SettingsConfig, SettingsFile } from '../settings/index.ts';
import { disabledCheck, misconfiguredCheck } from './check.ts';
import { partnerPage } from './page.ts';

/** Shows the partner endpoints' status: on, off or misconfigured. */
export const partnerStatusModule: Module<
  WebhookServices,
  { readonly config: SettingsConfig; readonly database: Database },
  { readonly config: SettingsConfig; readonly database: Database; readonly settingsFile: SettingsFile }
> = {
  name: 'partner-status',
  pages: partnerPage,
  commands: async (line) => (await import('./commands.ts')).partnerCommands(line),
  checks: [disabledCheck, misconfiguredCheck],
};
