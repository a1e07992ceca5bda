import type { Field } from '../fields/index.ts';
import { literal } from './names.ts';

/** Returns a field's default as SQL. Existing rows receive it when the field is added. @param index index of the column */
export function defaultSql({ default: value, type }: Pick<Field, 'default' | 'type'>, index = 0): string {
  if (typeof value === 'string') return literal(index === 0 ? value : (type.write?.(value)[index] ?? ''));
  if (typeof value !== 'object' || value === null) return String(value);
  if (type.element !== undefined) return `'{}'`;
  const text = type.write?.(value)[index] ?? '';
  return type.priced === true && index === 0 ? text : literal(text);
}
