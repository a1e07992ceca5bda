import { existsSync, readFileSync } from 'node:fs';
import type { Database } from '../../../engine/database/index.ts';
import { fileReason } from '../../../engine/errors.ts';
import type { DoctorCheck } from '../../../engine/modules/index.ts';
import { isLongEnough, type SecretsConfig, secretFile } from './instance-secrets.ts';

const advice = 'Set AUTH_SECRETS to the previous secret, or restore DATA_DIR/auth-secret from a backup.';

/** Checks that the instance still has the secrets that were used to encrypt the values in its database. */
export const secretsCheck: DoctorCheck<{ readonly config: SecretsConfig; readonly database: Database }> = {
  name: 'secrets',
  needs: ['config', 'database'],
  run: async ({ config, database }) => {
    if (config.authSecrets.length > 0) return [];
    const file = secretFile(config.dataFolder);
    if (existsSync(file)) {
      const message = problemOf(file);
      if (message !== undefined) return [{ location: file, message, advice }];
      if (database.kind === 'embedded') return [];
      return [
        {
          location: 'AUTH_SECRETS',
          message: `it is not set, so this machine’s secret (${file}) is used`,
          advice: 'Set it to the same value on every node, and store it with the backups.',
          isNote: true,
        },
      ];
    }
    const [user] = await database.run({
      name: '',
      text: 'select id::text from crm_users limit 1',
      values: [],
    });
    if (user === undefined) return [];
    const message =
      'the instance’s secret is missing. The next start will create a new one, which ends all sessions and makes stored secrets unreadable';
    return [{ location: file, message, advice }];
  },
};

/** Returns why a file does not contain a valid secret, or undefined if it does. */
function problemOf(file: string): string | undefined {
  try {
    return isLongEnough(readFileSync(file, 'utf8').trim()) ? undefined : 'it does not contain a secret';
  } catch (cause) {
    return `it cannot be read: ${fileReason(cause)}`;
  }
}
