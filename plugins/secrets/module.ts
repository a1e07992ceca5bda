import type { Module } from '../../engine/modules/index.ts';
import { secretsVariables } from './instance-secrets.ts';

/** The instance's own secrets, which sign tokens and forms and encrypt stored secrets. */
export const secretsModule: Module = { name: 'secrets', variables: secretsVariables };
