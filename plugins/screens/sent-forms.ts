import { UserError } from '../../engine/errors.ts';
import type { Tables } from '../../engine/tables/index.ts';
import { hashSecret } from '../secrets/index.ts';

/** Forms are remembered longer than any page with one is valid. */
const keptMs = 2 * 86_400_000;

/**
 * Claims a form in the transaction of what it does, so that it is done once however often and to whichever nodes it is
 * sent; what fails gives it free again.
 * @param form unguessable, one for each form that was shown
 * @throws UserError when it was sent before
 */
export async function claimForm(tables: Tables, form: string): Promise<void> {
  await tables
    .deleteFrom('crm_sent_forms')
    .where('sent_at', '<', new Date(Date.now() - keptMs))
    .execute();
  const claimed = await tables
    .insertInto('crm_sent_forms')
    .values({ form: hashSecret(form) })
    .onConflict((conflict) => conflict.doNothing())
    .returning('form')
    .executeTakeFirst();
  if (claimed === undefined) {
    throw new UserError(
      'this form was sent already, and what it made was shown then; take that back if it is lost',
    );
  }
}
