import { sql } from 'kysely';
import type { Tables } from '../../../engine/tables/index.ts';

/** A user's second factors. */
interface SecondFactors {
  readonly totp: boolean;
  readonly passkeys: number;
  /** Number of unused recovery codes. They can replace a factor but do not count as one. */
  readonly recoveryCodes: number;
}

/** Returns a user's second factors. */
export async function secondFactorsOf(tables: Tables, user: string): Promise<SecondFactors> {
  const count = (table: 'crm_totps' | 'crm_passkeys' | 'crm_recovery_codes') =>
    tables
      .selectFrom(table)
      .select(({ fn }) => fn.countAll().as('count'))
      .where('user_id', '=', user)
      .executeTakeFirstOrThrow();
  const [totps, passkeys, codes] = [
    await count('crm_totps'),
    await count('crm_passkeys'),
    await count('crm_recovery_codes'),
  ];
  return {
    totp: Number(totps.count) > 0,
    passkeys: Number(passkeys.count),
    recoveryCodes: Number(codes.count),
  };
}

/** SQL column that is true if user `u` needs a second factor to log in. */
export const selectSecondFactor = sql<boolean>`(exists (select from crm_totps t where t.user_id = u.id)
  or exists (select from crm_passkeys k where k.user_id = u.id))`.as('second_factor');

/** Reports whether a user needs a second factor to log in. */
export async function hasSecondFactor(tables: Tables, user: string): Promise<boolean> {
  const row = await tables
    .selectFrom('crm_users as u')
    .select(selectSecondFactor)
    .where('u.id', '=', user)
    .executeTakeFirst();
  return row?.second_factor === true;
}

/** Removes all of a user's second factors. Sessions are not affected. */
export async function removeSecondFactors(tables: Tables, user: string): Promise<void> {
  for (const table of ['crm_totps', 'crm_passkeys', 'crm_recovery_codes'] as const) {
    await tables.deleteFrom(table).where('user_id', '=', user).execute();
  }
}

/** Which users must have a second factor (`login.second_factor` in config.yaml). */
export type SecondFactorPolicy = 'off' | 'administrators' | 'everyone';
