import type { Module } from '../engine/modules/index.ts';
import { activityModule } from '../plugins/activity/index.ts';
import { apiKeysModule } from '../plugins/api-keys/index.ts';
import { backupModule } from '../plugins/backup/index.ts';
import { dataModule } from '../plugins/data-browser/index.ts';
import { demoModule } from '../plugins/demo/index.ts';
import { doctorModule } from '../plugins/doctor/index.ts';
import { explorerModule } from '../plugins/explorer/index.ts';
import { forgettingModule } from '../plugins/forgetting/index.ts';
import { idempotency } from '../plugins/idempotency/index.ts';
import { identityModule } from '../plugins/identity/index.ts';
import { ledgerModule } from '../plugins/ledger/index.ts';
import { loginModule } from '../plugins/login/index.ts';
import { mailModule } from '../plugins/mail/index.ts';
import { membersModule } from '../plugins/members/index.ts';
import { nameUses } from '../plugins/name-uses/index.ts';
import { openIdConnectModule } from '../plugins/openid-connect/index.ts';
import { operationsModule } from '../plugins/operations/index.ts';
import { organizationsModule } from '../plugins/organizations/index.ts';
import { profilesModule } from '../plugins/profiles/index.ts';
import { quotasModule } from '../plugins/quotas/index.ts';
import { screensModule } from '../plugins/screens/index.ts';
import { secondFactorModule } from '../plugins/second-factor/index.ts';
import { secretsModule } from '../plugins/secrets/index.ts';
import { throttlingModule } from '../plugins/throttling/index.ts';
import { tracingModule } from '../plugins/tracing/index.ts';
import { usersModule } from '../plugins/users/index.ts';
import { webhookModules } from '../webhooks/index.ts';
import type { Checked, Instance, Services } from './services.ts';

/** The modules of an instance, in the order of registration, navigation and help. */
export const modules: readonly Module<Services, Instance, Checked>[] = [
  // First, because it measures the routes of all others.
  operationsModule,
  tracingModule,
  doctorModule,
  secretsModule,
  mailModule,
  organizationsModule,
  idempotency,
  identityModule,
  usersModule,
  quotasModule,
  apiKeysModule,
  nameUses,
  throttlingModule,
  secondFactorModule,
  loginModule,
  openIdConnectModule,
  membersModule,
  profilesModule,
  ...webhookModules,
  ledgerModule,
  activityModule,
  forgettingModule,
  backupModule,
  dataModule,
  screensModule,
  explorerModule,
  demoModule,
];
