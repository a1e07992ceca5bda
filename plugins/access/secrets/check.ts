import { existsSync, readFileSync } from 'node:fs';
import type { Database } from '../../../engine/database/index.ts';
import { fileReason } from '../../../engine/errors.ts';
import type { DoctorCheck } from '../../../engine/modules/index.ts';
import { isLongEnough, type SecretsConfig, secretFile } from './instance-secrets.ts';

const advice =
  'Set AUTH_SECRETS to the secret that the instance had, or put DATA_DIR/auth-secret back from the backup.';

/** The instance has the secrets that its database was written with. */
export const secretsCheck: DoctorCheck<{ readonly config: SecretsConfig; readonly database: Database }> = {
  name: 'secrets',
  needs: ['config', 'database'],
  run: async ({ config, database }) => {
    if (config.authSecrets.length > 0) return [];
    const file = secretFile(config.dataFolder);
    if (existsSync(file)) {
      const problem = kept(file);
      if (problem !== undefined) return [{ place: file, problem, advice }];
      if (database.kind === 'embedded') return [];
      return [
        {
          place: 'AUTH_SECRETS',
          problem: `it is not set, so the secret of this machine is in force (${file})`,
          advice: 'Set it to the same on every node, and keep it with the backups.',
          isNote: true,
        },
      ];
    }
    const [used] = await database.run({
      name: '',
      text: 'select id::text from crm_users limit 1',
      values: [],
    });
    if (used === undefined) return [];
    const problem =
      'the secret of the instance is missing: the next start makes another, all logins end, and stored secrets cannot be opened';
    return [{ place: file, problem, advice }];
  },
};

/** What is wrong with a file that holds a secret. */
function kept(file: string): string | undefined {
  try {
    return isLongEnough(readFileSync(file, 'utf8').trim()) ? undefined : 'it holds no secret';
  } catch (cause) {
    return `it cannot be read: ${fileReason(cause)}`;
  }
}
