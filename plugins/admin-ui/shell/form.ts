import { isRowId } from '../../../engine/fields/index.ts';
import type { Tables } from '../../../engine/tables/index.ts';
import { hashSecret } from '../../access/secrets/index.ts';
import { shellTexts } from './texts/index.ts';
import { TranslatedError } from './translated-error.ts';

/** A submitted form's fields, by name. */
export type Form = Readonly<Record<string, string | readonly string[] | undefined>>;

/** Returns a form field's value, or the first of several values. */
export const field = (form: Form, name: string): string => {
  const value = form[name];
  return (typeof value === 'string' ? value : value?.[0]) ?? '';
};

/** Returns all of a form field's values. */
export const fields = (form: Form, name: string): readonly string[] => {
  const value = form[name];
  return value === undefined ? [] : typeof value === 'string' ? [value] : value;
};

/** Returns the ID in a form field. @throws UserError if the value is not an ID */
export function idField(form: Form, name: string): string {
  const id = field(form, name);
  if (!isRowId(id)) throw new TranslatedError(shellTexts.later('itemMissing'));
  return id;
}

/** Returns the path to redirect to, or /setup if the path is not a page of the admin UI or the explorer. */
export function safeNext(next: unknown): string {
  return typeof next === 'string' &&
    /^\/(?:setup|docs)(?:[/?][\w\-./?=&%]{0,2000})?$/.test(next) &&
    !next.includes('..')
    ? next
    : '/setup';
}

/** How long submitted forms are stored, in milliseconds. No page with a form stays valid for longer. */
const retentionMs = 2 * 86_400_000;

/**
 * Claims a form in its action's transaction, so that the action runs only once, even if the form is submitted
 * several times or to several nodes. A rollback releases the claim.
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
    throw new TranslatedError(shellTexts.later('alreadySubmitted'));
  }
}
