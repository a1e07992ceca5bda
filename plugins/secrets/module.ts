import type { Module } from '../../engine/modules/index.ts';
import { secretsVariables } from './instance-secrets.ts';

/** The instance's own secrets: what signs tokens and forms, and encrypts what must be read again. */
export const secretsModule: Module = { name: 'secrets', variables: secretsVariables };
