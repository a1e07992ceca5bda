import type { ResourceView } from '../../../engine/compile/index.ts';
import { resourceLabel } from '../../../engine/definition/index.ts';
import type { RecordReferrers } from '../../../engine/errors.ts';
import {
  type Field,
  fieldLabel,
  humanize,
  linksOf,
  referenceName,
  refersToMany,
  refersToUser,
} from '../../../engine/fields/index.ts';
import { equalityParameter, maxExpansions, type Query } from '../../../engine/query/index.ts';
import type { DisplayValue, Language, Link, RecordPage } from '../shell/index.ts';
import type { Calls, DataRecord } from './calls.ts';
import { writable } from './inputs.ts';
import { type People, personValue } from './people.ts';
import { recordsTexts } from './texts/index.ts';
import { inText, resourceNoun, resourceWords, type Titles, textOf } from './values.ts';

/** An expanded list in a record. */
interface ExpandedRecords {
  readonly data: readonly DataRecord[];
  readonly has_more: boolean;
  readonly url: string;
}

/** A list of records on the page of the record that they refer to. */
type RelatedList = NonNullable<RecordPage['related']>[number];

/** Functions for displaying references as links with the referenced records' titles. */
export interface References {
  /** Returns the parameters for including referenced records, if the member can read them. */
  readonly expansion: (calls: Calls, fields: readonly Field[]) => Query;
  /** Returns the parameters for including everything that a record's page shows, if the member can read it. */
  readonly pageExpansion: (calls: Calls, resource: ResourceView) => Query;
  /** Returns the lists of records that refer to a record. Empty lists are omitted if the member cannot add a record. */
  readonly lists: (calls: Calls, resource: ResourceView, record: DataRecord) => readonly RelatedList[];
  /** Returns the resource that a field refers to. */
  readonly target: (field: Pick<Field, 'to'>) => ResourceView | undefined;
  /** Returns the titles of the records to which a field refers, or undefined if they are not available. */
  readonly title: (field: Field, record: DataRecord) => string | undefined;
  /** Returns the expanded records of a list of references. */
  readonly records: (field: Field, record: DataRecord) => readonly DataRecord[];
  /** Returns a record's URL. @param id the record's ID, or a text such as "leads/7" if the field has alternatives */
  readonly url: (field: Field, id: string) => string;
  /** Returns the noun for a resource's records, by the resource's name. */
  readonly wordsFor: (resource: string) => string;
  /** Describes the records that refer to a record, for example "contacts (2)". */
  readonly referrersText: (referrers: RecordReferrers) => string;
  /** Returns a link to the records that refer to a record through a field, if the member can list them. */
  readonly referrers: (
    calls: Calls,
    referrers: RecordReferrers,
    target: ResourceView,
    id: string,
  ) => Link | undefined;
}

/** Creates the references for an organization's pages. @param page the base URL of its records, and the page's language */
export function referencesOf(
  resources: readonly ResourceView[],
  titles: Titles,
  { base, language }: { readonly base: string; readonly language: Language },
): References {
  const t = recordsTexts(language);
  const target: References['target'] = ({ to }) => resources.find(({ name }) => name === to);
  const expand = (names: readonly string[]): Query => (names.length === 0 ? {} : { expand: names.join() });
  const isAllowed = (calls: Calls, field: Pick<Field, 'to'>, action: 'read' | 'list') => {
    const to = target(field);
    return to !== undefined && calls.allows(to, action);
  };
  const readable = (calls: Calls, fields: readonly Field[]) =>
    fields
      .filter((field) => {
        const links = linksOf(field);
        return links.length > 0 && links.every((link) => isAllowed(calls, link, 'read'));
      })
      .map(({ name }) => name);
  const listsOf = ({ definition }: ResourceView) =>
    definition.expansion.flatMap(({ name, to, reference, isList }) =>
      isList && to !== undefined ? [{ name, to, reference }] : [],
    );
  const wordsFor: References['wordsFor'] = (name) => {
    const resource = target({ to: name });
    return resource === undefined ? inText(humanize(name), language) : resourceWords(resource, language);
  };
  const referrersText: References['referrersText'] = ({ resource, count, isMore }) =>
    count === 0
      ? wordsFor(resource)
      : `${wordsFor(resource)} (${isMore ? t('moreThan', { count }) : t('number', { count })})`;
  return {
    target,
    wordsFor,
    referrersText,
    expansion: (calls, fields) => expand(readable(calls, fields)),
    pageExpansion: (calls, resource) => {
      const lists = listsOf(resource).filter((list) => isAllowed(calls, list, 'list'));
      const names = lists.slice(0, maxExpansions).map(({ name }) => name);
      return expand([...readable(calls, resource.definition.fields), ...names]);
    },
    lists: (calls, resource, record) =>
      listsOf(resource).flatMap(({ name, to, reference }) => {
        const from = target({ to });
        const list = (record.expanded as Readonly<Record<string, ExpandedRecords>> | undefined)?.[name];
        if (from === undefined || list === undefined) return [];
        const count = list.data.length;
        const field = writable(from).find((candidate) => candidate.name === referenceName(reference));
        const canAdd = field !== undefined && calls.allows(from, 'create');
        if (count === 0 && !canAdd) return [];
        // A default name contains a dot if the resource refers to this one by several fields.
        const title = name.includes('.')
          ? `${resourceLabel(from.definition)} (${fieldLabel(reference)})`
          : name === to
            ? resourceLabel(from.definition)
            : humanize(name);
        const [, query] = list.url.split('?');
        const id = textOf(record.id);
        const noun = resourceNoun(from, language);
        return {
          title: count === 0 ? title : `${title} (${list.has_more ? `${count}+` : count})`,
          ...(canAdd && {
            add: {
              label: t('add', { noun }),
              href: `${base}/${to}/new?${new URLSearchParams({
                [field.name]: reference.alternativeOf === undefined ? id : `${resource.name}/${id}`,
              })}`,
            },
          }),
          records: list.data.map((item) => ({
            label: titles.of(from, item),
            href: `${base}/${to}/${textOf(item.id)}`,
          })),
          ...(count > 0 && {
            all: {
              label: t('showAll'),
              name: t('showAllOf', { name: title }),
              href: `${base}/${to}?${query}`,
            },
          }),
        };
      }),
    records: expandedOf,
    title: (field, record) => {
      if (refersToMany(field)) {
        const to = target(field);
        const items = expandedOf(field, record);
        return to === undefined || items.length === 0
          ? undefined
          : items.map((item) => titles.of(to, item)).join(', ');
      }
      const expanded = (record.expanded as Readonly<Record<string, DataRecord | null>> | undefined)?.[
        field.name
      ];
      const to = target(field.alternatives === undefined ? field : { to: textOf(expanded?.resource) });
      return to === undefined || expanded == null ? undefined : titles.of(to, expanded);
    },
    url: (field, id) => (field.alternatives === undefined ? `${base}/${field.to}/${id}` : `${base}/${id}`),
    referrers: (calls, referrers, to, id) => {
      const resource = resources.find(({ name }) => name === referrers.resource);
      if (resource === undefined || !calls.allows(resource, 'list')) return undefined;
      const filter = resource.definition.filters.find(({ field }) => field.name === referrers.field);
      // The records can also refer to a record that would be deleted with this one.
      const reference = filter && linksOf(filter.field).find((link) => link.to === to.name);
      const parameter = equalityParameter(resource.definition.filters, referrers.field);
      const value = reference?.alternativeOf === undefined ? id : `${to.name}/${id}`;
      const isFiltered = reference !== undefined && parameter !== undefined;
      const query = isFiltered ? `?${new URLSearchParams({ [parameter.name]: value })}` : '';
      return {
        label: t('showReferrers', { records: referrersText(referrers) }),
        href: `${base}/${resource.name}${query}`,
      };
    },
  };
}

const expandedOf: References['records'] = (field, record) =>
  (record.expanded as Readonly<Record<string, readonly DataRecord[] | undefined>> | undefined)?.[
    field.name
  ] ?? [];

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
  if (refersToMany(field)) return text === undefined ? undefined : { text };
  return text === undefined ? undefined : { text, href: references.url(field, textOf(record[field.name])) };
}
