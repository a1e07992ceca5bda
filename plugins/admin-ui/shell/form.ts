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

/**
 * Completes a point in time as users type it, a day and a time without seconds or offset, to RFC 3339 in UTC.
 * @returns undefined if the text does not look like one; the result may still name a day or time that does not exist
 */
export function typedTimestamp(text: string): string | undefined {
  const parts = /^(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d)(:\d\d(?:\.\d+)?)?)? ?(Z|UTC|[+-]\d\d:\d\d)?$/i.exec(
    text.trim(),
  );
  if (parts === null) return undefined;
  const [, day, minutes = '00:00', seconds = ':00', offset = 'Z'] = parts;
  return `${day}T${minutes}${seconds}${offset.toUpperCase() === 'UTC' ? 'Z' : offset}`;
}
