import { UserError } from '../../../engine/errors.ts';
import { isRowId } from '../../../engine/fields/index.ts';

/** Fields of a submitted form, by name. */
export type Form = Readonly<Record<string, string | readonly string[] | undefined>>;

/** Returns the value of a form field, or the first of several values. */
export const field = (form: Form, name: string): string => {
  const value = form[name];
  return (typeof value === 'string' ? value : value?.[0]) ?? '';
};

/** Returns all values of a form field. */
export const fields = (form: Form, name: string): readonly string[] => {
  const value = form[name];
  return value === undefined ? [] : typeof value === 'string' ? [value] : value;
};

/** Returns the ID in a form field. @throws UserError if the value is not an ID */
export function idField(form: Form, name: string): string {
  const id = field(form, name);
  if (!isRowId(id)) throw new UserError('this item no longer exists');
  return id;
}

/** Returns the path to redirect to, or /setup if the path leads to another origin. */
export function safeNext(next: unknown): string {
  return typeof next === 'string' &&
    /^\/setup(?:[/?][\w\-./?=&%]{0,2000})?$/.test(next) &&
    !next.includes('..')
    ? next
    : '/setup';
}
