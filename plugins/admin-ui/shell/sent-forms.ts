import { UserError } from '../../../engine/errors.ts';
import type { Tables } from '../../../engine/tables/index.ts';
import { hashSecret } from '../../access/secrets/index.ts';

/** Period for which submitted forms are stored, in milliseconds. No page with a form is valid for longer. */
const retentionMs = 2 * 86_400_000;

/**
 * Claims a form in its action's transaction, so that the action runs once even if the form is submitted several times
 * or to several nodes. A rollback releases the claim.
 * @param form unguessable identity of a rendered form
 * @throws UserError if the form was already submitted
 */
export async function claimForm(tables: Tables, form: string): Promise<void> {
  await tables
    .deleteFrom('crm_sent_forms')
    .where('sent_at', '<', new Date(Date.now() - retentionMs))
    .execute();
  const row = await tables
    .insertInto('crm_sent_forms')
    .values({ form: hashSecret(form) })
    .onConflict((conflict) => conflict.doNothing())
    .returning('form')
    .executeTakeFirst();
  if (row === undefined) {
    throw new UserError(
      'this form was already submitted. Its result was shown only once. Revoke it if you did not save it.',
    );
  }
}
