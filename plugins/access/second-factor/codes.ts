import type { Database } from '../../../engine/database/index.ts';
import { type Tables, tablesOf } from '../../../engine/tables/index.ts';
import { attempts } from '../rate-limiting/index.ts';
import { generateCode, hashSecret, type Sealing } from '../secrets/index.ts';

/** Number of recovery codes per user. */
const recoveryCodeCount = 10;

/** Kind of code that was accepted, as shown in the session list. */
type CodeKind = 'code' | 'recovery code';

/**
 * Checks a user's code: six digits from the authenticator app, or a recovery code. Each code can be used only
 * once.
 * @returns undefined if the code is wrong or was already used
 * @throws HttpError 429 with Retry-After after too many wrong codes
 */
export type CheckCode = (user: string, code: string) => Promise<CodeKind | undefined>;

/** Creates the function that checks codes. @param sealing decrypts the secrets of authenticator apps */
export function codeCheck(database: Database, sealing: Sealing): CheckCode {
  const limiter = attempts('second factors', { failures: 5, waiting: 10 });
  return (user, code) =>
    limiter.run(user, async () => {
      const digits = code.replaceAll(/\s/g, '');
      if (/^\d{6}$/.test(digits)) {
        return (await useTotp(tablesOf(database), sealing, user, digits)) ? 'code' : undefined;
      }
      return (await useRecoveryCode(tablesOf(database), user, code)) ? 'recovery code' : undefined;
    });
}

async function useTotp(tables: Tables, sealing: Sealing, user: string, code: string): Promise<boolean> {
  const row = await tables
    .selectFrom('crm_totps')
    .select('secret')
    .where('user_id', '=', user)
    .executeTakeFirst();
  if (row === undefined) return false;
  // Loaded on first use, because many instances have no authenticator apps.
  const { stepOf } = await import('./totp.ts');
  const step = stepOf(await sealing.open(row.secret), code);
  if (step === undefined) return false;
  // If two requests use the same code concurrently, only one of them updates the row.
  const updatedRow = await tables
    .updateTable('crm_totps')
    .set({ last_step: String(step) })
    .where('user_id', '=', user)
    .where('secret', '=', row.secret)
    .where('last_step', '<', String(step))
    .returning('user_id')
    .executeTakeFirst();
  return updatedRow !== undefined;
}

async function useRecoveryCode(tables: Tables, user: string, code: string): Promise<boolean> {
  const row = await tables
    .deleteFrom('crm_recovery_codes')
    .where('user_id', '=', user)
    .where('code_hash', '=', hashSecret(code.trim().toUpperCase()))
    .returning('user_id')
    .executeTakeFirst();
  return row !== undefined;
}

/**
 * Stores a user's new authenticator app, replacing the previous one. `step` is the time step of the code that
 * confirmed the app.
 */
export async function storeTotp(
  tables: Tables,
  user: string,
  { sealed, step }: { readonly sealed: string; readonly step: number },
): Promise<void> {
  const values = { secret: sealed, last_step: String(step), created_at: new Date() };
  await tables
    .insertInto('crm_totps')
    .values({ user_id: user, ...values })
    .onConflict((conflict) => conflict.column('user_id').doUpdateSet(values))
    .execute();
}

/**
 * Generates new recovery codes for a user and replaces the previous ones. Only their hashes are stored.
 * @returns the codes
 */
export async function generateRecoveryCodes(tables: Tables, user: string): Promise<string[]> {
  const codes = Array.from({ length: recoveryCodeCount }, generateCode);
  await tables.deleteFrom('crm_recovery_codes').where('user_id', '=', user).execute();
  await tables
    .insertInto('crm_recovery_codes')
    .values(codes.map((code) => ({ user_id: user, code_hash: hashSecret(code) })))
    .execute();
  return codes;
}
