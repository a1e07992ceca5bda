import type { ResourceView } from '../../../engine/compile/index.ts';
import { fieldLabel } from '../../../engine/fields/index.ts';
import { maxSortKeys } from '../../../engine/query/index.ts';
import type { ListView } from '../shell/index.ts';
import type { RecordsText } from './texts/index.ts';

/** One of the fields by which a list is sorted. */
interface SortKey {
  readonly name: string;
  readonly direction: 'asc' | 'desc';
}

/** Returns the fields by which a list with these parameters is sorted, in this order. */
export function sortKeysIn({ definition }: ResourceView, parameters: URLSearchParams): readonly SortKey[] {
  const { field, direction } = definition.sort;
  const [sort, dir] = [parameters.get('sort') ?? '', parameters.get('dir') ?? ''];
  const names = sort === '' ? [field.name] : sort.split(',');
  return names.map((text) => {
    const name = text.replace(/^-/, '');
    const isDescending =
      dir === '' ? text.startsWith('-') || (text === field.name && direction === 'desc') : dir === 'desc';
    return { name, direction: isDescending ? 'desc' : 'asc' };
  });
}

/** Returns whether a list accepts the parameters `sort` and `dir`. */
export const isOrder = (resource: ResourceView, parameters: URLSearchParams): boolean =>
  sortKeysIn(resource, parameters).every(({ name }) => resource.definition.sort.choices.has(name)) &&
  ['', 'asc', 'desc'].includes(parameters.get('dir') ?? '');

/** Names of the fields of {@link sortMenu}, each repeated once per sort key. */
const [fieldParameter, directionParameter] = ['sort[field]', 'sort[direction]'];

/** Returns the form that sorts a list by several fields, or undefined if its order is fixed. */
export function sortMenu(
  resource: ResourceView,
  parameters: URLSearchParams,
  { keep, t }: { readonly keep: NonNullable<ListView['sort']>['keep']; readonly t: RecordsText },
): ListView['sort'] {
  const { choices } = resource.definition.sort;
  if (choices.size === 0) return undefined;
  const keys = sortKeysIn(resource, parameters);
  return {
    keep,
    // One more than in use, and at least two.
    keys: Array.from({ length: Math.min(Math.max(keys.length + 1, 2), maxSortKeys) }, (_, index) => {
      const key = keys[index];
      return {
        fieldName: fieldParameter,
        directionName: directionParameter,
        label: index === 0 ? t('sortBy') : t('thenBy'),
        directionLabel: t('directionOf', { position: String(index + 1) }),
        fields: [
          ...(index === 0 ? [] : [{ value: '', label: '–' }]),
          ...[...choices.values()]
            .filter(({ aliasOf, set }) => aliasOf === undefined && set !== 'organization')
            .map((field) => ({
              value: field.name,
              label: fieldLabel(field),
              selected: field.name === key?.name,
            })),
        ],
        directions: [
          { value: 'asc', label: t('ascending'), selected: key?.direction !== 'desc' },
          { value: 'desc', label: t('descending'), selected: key?.direction === 'desc' },
        ],
      };
    }),
  };
}

/** Returns the list's URL with the order chosen in {@link sortMenu}, or undefined if the form was not submitted. */
export function chosenOrder(path: string, parameters: URLSearchParams): string | undefined {
  if (!parameters.has(fieldParameter)) return undefined;
  const directions = parameters.getAll(directionParameter);
  const keys = new Map<string, string>();
  for (const [index, name] of parameters.getAll(fieldParameter).entries())
    if (name !== '' && !keys.has(name)) keys.set(name, directions[index] === 'desc' ? '-' : '');
  const next = new URLSearchParams(parameters);
  for (const name of [fieldParameter, directionParameter, 'sort', 'dir', 'cursor', 'page']) next.delete(name);
  const [[name = '', sign = ''] = []] = keys;
  if (keys.size > 1) next.set('sort', [...keys].map(([field, prefix]) => `${prefix}${field}`).join());
  else if (name !== '') {
    next.set('sort', name);
    next.set('dir', sign === '' ? 'asc' : 'desc');
  }
  return `${path}?${next}`;
}
