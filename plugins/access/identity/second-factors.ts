import { sql } from 'kysely';
import type { Tables } from '../../../engine/tables/index.ts';

/** What a user proves a second factor with. */
export interface SecondFactors {
  readonly totp: boolean;
  readonly passkeys: number;
  /** Recovery codes that are left; they stand in for the others and are none by themselves. */
  readonly recoveryCodes: number;
}

/** The second factors of a user. */
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

/** Selects whether a login of a user `u` takes a second factor. */
export const selectSecondFactor = sql<boolean>`(exists (select from crm_totps t where t.user_id = u.id)
  or exists (select from crm_passkeys k where k.user_id = u.id))`.as('second_factor');

/** Whether a login of a user takes a second factor. */
export async function hasSecondFactor(tables: Tables, user: string): Promise<boolean> {
  const row = await tables
    .selectFrom('crm_users as u')
    .select(selectSecondFactor)
    .where('u.id', '=', user)
    .executeTakeFirst();
  return row?.second_factor === true;
}

/** Removes every second factor of a user. Sessions are not touched. */
export async function removeSecondFactors(tables: Tables, user: string): Promise<void> {
  for (const table of ['crm_totps', 'crm_passkeys', 'crm_recovery_codes'] as const) {
    await tables.deleteFrom(table).where('user_id', '=', user).execute();
  }
}

/** Who must have a second factor (`login.second_factor` in config.yaml). */
export type SecondFactorPolicy = 'off' | 'administrators' | 'everyone';
