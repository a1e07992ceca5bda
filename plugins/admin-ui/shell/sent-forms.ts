import { UserError } from '../../../engine/errors.ts';
import type { Tables } from '../../../engine/tables/index.ts';
import { hashSecret } from '../../access/secrets/index.ts';

/** How long a sent form is remembered: longer than any page with it is valid. */
const keptMs = 2 * 86_400_000;

/**
 * Claims a form in the transaction of its action, so that the action runs once, however often and to whichever node
 * the form is sent. A failed transaction releases the claim.
 * @param form unguessable identity of one shown form
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
