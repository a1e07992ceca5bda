import type { Resource } from '../../../engine/compile/index.ts';
import { type Field, refersToUser } from '../../../engine/fields/index.ts';
import type { Query } from '../../../engine/query/index.ts';
import type { DisplayValue } from '../shell/index.ts';
import type { Calls, DataRecord } from './calls.ts';
import { type People, personValue } from './people.ts';
import { type Titles, textOf } from './values.ts';

/** Functions for displaying references as links with the referenced records' titles. */
export interface References {
  /** Returns the parameters for including referenced records, if the member can read them. */
  readonly expansion: (calls: Calls, fields: readonly Field[]) => Query;
  /** Returns the resource that a field refers to. */
  readonly target: (field: Field) => Resource | undefined;
  readonly title: (field: Field, record: DataRecord) => string | undefined;
  readonly url: (field: Field, id: string) => string;
}

/** Creates the references for an organization's pages. @param base base URL of its records */
export function referencesOf(resources: readonly Resource[], titles: Titles, base: string): References {
  const target: References['target'] = ({ to }) => resources.find(({ name }) => name === to);
  return {
    target,
    expansion: (calls, fields) => {
      const readable = fields.filter((field) => {
        const to = target(field);
        return to !== undefined && calls.allows(to, 'read');
      });
      return readable.length === 0 ? {} : { expand: readable.map(({ name }) => name).join() };
    },
    title: (field, record) => {
      const to = target(field);
      const expanded = (record.expanded as Readonly<Record<string, DataRecord | null>> | undefined)?.[
        field.name
      ];
      return to === undefined || expanded == null ? undefined : titles.of(to, expanded);
    },
    url: (field, id) => `${base}/${field.to}/${id}`,
  };
}

/**
 * Returns the title and URL of a referenced record, or undefined if its title is not available. If the field contains
 * a user, returns the user's name.
 */
export function referredValue(
  references: References,
  people: People,
  field: Field,
  record: DataRecord,
): DisplayValue | undefined {
  if (refersToUser(field)) return personValue(people, textOf(record[field.name]));
  const text = references.title(field, record);
  return text === undefined ? undefined : { text, href: references.url(field, textOf(record[field.name])) };
}
