import type { Tables } from '../../../engine/tables/index.ts';
import { findUser, type User } from './users.ts';

/** A user's account at an OpenID Connect provider. */
interface Identity {
  readonly issuer: string;
  readonly subject: string;
}

/** Returns the user linked to an account at a provider, or undefined if none is linked. */
export async function linkedUser(tables: Tables, { issuer, subject }: Identity): Promise<User | undefined> {
  const row = await tables
    .selectFrom('crm_identities')
    .select('user_id')
    .where('issuer', '=', issuer)
    .where('subject', '=', subject)
    .executeTakeFirst();
  return row && findUser(tables, row.user_id);
}

/**
 * Links a user to an account at a provider.
 * @returns false if the account belongs to another user, or the user is linked to another account at the provider
 */
export async function linkIdentity(
  tables: Tables,
  user_id: string,
  { issuer, subject }: Identity,
): Promise<boolean> {
  const row = await tables
    .insertInto('crm_identities')
    .values({ issuer, subject, user_id })
    .onConflict((conflict) => conflict.doNothing())
    .returning('user_id')
    .executeTakeFirst();
  return row !== undefined || (await linkedUser(tables, { issuer, subject }))?.id === user_id;
}

/** Removes all of a user's links to providers. @returns the number of removed links */
export async function unlinkIdentities(tables: Tables, user: string): Promise<number> {
  const rows = await tables
    .deleteFrom('crm_identities')
    .where('user_id', '=', user)
    .returning('issuer')
    .execute();
  return rows.length;
}
