// Authenticator apps and passkeys of test users.
import assert from 'node:assert/strict';
import { Secret, TOTP } from 'otpauth';
import { tablesOf } from '../../engine/tables/handle.ts';
import { formsOf, shownIn, type Visitor } from './forms.ts';
import type { Answer, Instance } from './instance.ts';

const page = '/setup/me/second-factor/app';

/** Returns an authenticator app's code, now or a number of 30-second steps later. */
export const codeOf = (secret: string, steps = 0): string =>
  new TOTP({ secret: Secret.fromBase32(secret) }).generate({ timestamp: Date.now() + steps * 30_000 });

/** Returns the secret that a page shows for manual entry. */
export const secretIn = ({ text }: Pick<Answer, 'text'>): string =>
  /<code class="key">([A-Z2-7 ]+)<\/code>/.exec(text)?.[1]?.replaceAll(' ', '') ?? assert.fail(text);

/**
 * Sets up an authenticator app with the forms.
 * @returns its secret, the code used and the recovery codes
 */
export async function setUpApp(
  browser: Visitor,
): Promise<{ secret: string; used: string; recovery: string[] }> {
  const shown = await browser.get(page);
  const secret = secretIn(shown);
  const form = formsOf(shown).find(({ action }) => action === page);
  const used = codeOf(secret);
  const answer = await browser.post(page, { ...form?.values, code: used });
  return { secret, used, recovery: shownIn(answer, 'codes').split('\n') };
}

/** Stores a passkey that no authenticator has. @returns its ID */
export async function addPasskey(
  { database }: Pick<Instance, 'database'>,
  user: string,
  name = 'Laptop',
): Promise<string> {
  const row = await tablesOf(database)
    .insertInto('crm_passkeys')
    .values({
      ...{ user_id: user, credential: `${name} of ${user}`, public_key: '', uses: '0', transports: '' },
      ...{ name, last_used_at: null },
    })
    .returning('id')
    .executeTakeFirstOrThrow();
  return row.id;
}

/** Makes a user's codes for the current time step valid again, instead of waiting for the next step. */
export const forgetStep = (instance: Instance, user: string) =>
  tablesOf(instance.database)
    .updateTable('crm_totps')
    .set({ last_step: '0' })
    .where('user_id', '=', user)
    .execute();
