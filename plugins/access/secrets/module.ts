import type { Database } from '../../../engine/database/index.ts';
import type { Module } from '../../../engine/modules/index.ts';
import { secretsCheck } from './check.ts';
import { type SecretsConfig, secretsVariables } from './instance-secrets.ts';

interface CheckServices {
  readonly config: SecretsConfig;
  readonly database: Database;
}

/** The instance's own secrets, which sign tokens and forms and encrypt stored secrets. */
export const secretsModule: Module<unknown, unknown, CheckServices> = {
  name: 'secrets',
  variables: secretsVariables,
  checks: [secretsCheck],
};
