import type { Tables } from '../../../engine/tables/index.ts';
import { findUser, type User } from './users.ts';

/** Somebody as an OpenID Connect provider names them. */
export interface Identity {
  readonly issuer: string;
  readonly subject: string;
}

/** Returns the user linked to a provider's account, or undefined. */
export async function linkedUser(tables: Tables, { issuer, subject }: Identity): Promise<User | undefined> {
  const row = await tables
    .selectFrom('crm_identities')
    .select('user_id')
    .where('issuer', '=', issuer)
    .where('subject', '=', subject)
    .executeTakeFirst();
  return row && findUser(tables, row.user_id);
}

/** Links a user to somebody at a provider. @returns whether it is not linked to somebody else there */
export async function linkIdentity(
  tables: Tables,
  user_id: string,
  { issuer, subject }: Identity,
): Promise<boolean> {
  const linked = await tables
    .insertInto('crm_identities')
    .values({ issuer, subject, user_id })
    .onConflict((conflict) => conflict.doNothing())
    .returning('user_id')
    .executeTakeFirst();
  return linked !== undefined || (await linkedUser(tables, { issuer, subject }))?.id === user_id;
}

/** Removes every link of a user to providers. @returns how many there were */
export async function unlinkIdentities(tables: Tables, user: string): Promise<number> {
  const removed = await tables
    .deleteFrom('crm_identities')
    .where('user_id', '=', user)
    .returning('issuer')
    .execute();
  return removed.length;
}
