import { createHmac, randomBytes } from 'node:crypto';
import { closeSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Variable, VariableValues } from '../../../engine/config/index.ts';
import { createFolder, type DatabaseConfig } from '../../../engine/database/index.ts';
import { fileReason, UserError } from '../../../engine/errors.ts';

/** Reports whether a string is long enough to be a secret. */
export const isLongEnough = (secret: string): boolean => secret.length >= 32;

/** Environment variables that configure the instance's own secrets. */
export const secretsVariables = {
  /**
   * The first secret signs and encrypts, and all of them verify and decrypt. If the list is empty, a secret is
   * generated and stored in the data folder.
   */
  authSecrets: {
    name: 'AUTH_SECRETS',
    fallback: [],
    show: (secrets) => `${secrets.length}, hidden`,
    expected: 'secrets of at least 32 characters, separated by commas',
    read: (text) => {
      const list = text.split(',').map((secret) => secret.trim());
      return list.every(isLongEnough) ? list : undefined;
    },
  } satisfies Variable<readonly string[]> as Variable<readonly string[]>,
};

/** Configuration that determines the instance's secrets. */
export type SecretsConfig = VariableValues<typeof secretsVariables> & Pick<DatabaseConfig, 'dataFolder'>;

/** The secrets shared by all of the instance's nodes, read once. */
export interface InstanceSecrets {
  /** The first secret signs and all of them verify, so that secrets can be rotated without an outage. */
  readonly all: readonly string[];
  /** Derives 256-bit keys for one purpose, one key per secret. */
  readonly keys: (purpose: string) => readonly Buffer[];
}

/**
 * Reads the instance's secrets, or generates a secret if none exists yet.
 * @throws UserError if a secret can neither be read nor stored
 */
export function instanceSecrets({ authSecrets, dataFolder }: SecretsConfig): InstanceSecrets {
  const all = authSecrets.length > 0 ? authSecrets : [generatedSecret(dataFolder)];
  return {
    all,
    keys: (purpose) => all.map((secret) => createHmac('sha256', secret).update(purpose).digest()),
  };
}

/** Returns the path of the secret generated for an instance without AUTH_SECRETS. */
export const secretFile = (folder: string): string => join(folder, 'auth-secret');

/** Reads the generated secret from the data folder, or generates it if it does not exist. */
function generatedSecret(folder: string): string {
  const file = secretFile(folder);
  try {
    createFolder(folder, 0o700);
    storeNew(file, randomBytes(48).toString('base64url'));
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException;
    if (code !== 'EEXIST') {
      throw new UserError(
        `cannot store a secret in ${folder} (${fileReason(cause)}). Set AUTH_SECRETS or DATA_DIR.`,
      );
    }
  }
  const secret = readFileSync(file, 'utf8').trim();
  if (!isLongEnough(secret))
    throw new UserError(`${file} does not contain a valid secret. Delete the file or set AUTH_SECRETS.`);
  return secret;
}

/** Creates a file, and removes it if writing fails. @throws Error with code EEXIST if the file exists */
function storeNew(file: string, text: string): void {
  const descriptor = openSync(file, 'wx', 0o600);
  try {
    writeFileSync(descriptor, text);
  } catch (cause) {
    rmSync(file);
    throw cause;
  } finally {
    closeSync(descriptor);
  }
}
