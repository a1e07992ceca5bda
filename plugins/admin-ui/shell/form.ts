import { UserError } from '../../../engine/errors.ts';
import { isRowId } from '../../../engine/fields/index.ts';

/** The fields of a sent form. */
export type Form = Readonly<Record<string, string | readonly string[] | undefined>>;

/** One value of a form field; the first where there are several. */
export const field = (form: Form, name: string): string => {
  const value = form[name];
  return (typeof value === 'string' ? value : value?.[0]) ?? '';
};

/** Every value of a form field. */
export const fields = (form: Form, name: string): readonly string[] => {
  const value = form[name];
  return value === undefined ? [] : typeof value === 'string' ? [value] : value;
};

/** An id in a form. @throws UserError if it is not an id */
export function idField(form: Form, name: string): string {
  const id = field(form, name);
  if (!isRowId(id)) throw new UserError('that does not exist any more');
  return id;
}

/** The path of this origin to continue at, or /setup: no redirect leaves this origin. */
export function safeNext(next: unknown): string {
  return typeof next === 'string' &&
    /^\/setup(?:[/?][\w\-./?=&%]{0,2000})?$/.test(next) &&
    !next.includes('..')
    ? next
    : '/setup';
}
