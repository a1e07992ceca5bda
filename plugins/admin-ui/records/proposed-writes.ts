import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { Resource, ResourceView } from '../../../engine/compile/index.ts';
import type { Database } from '../../../engine/database/index.ts';
import {
  customName,
  documentText,
  type Field,
  fieldLabel,
  humanize,
  refersToMany,
  refersToUser,
} from '../../../engine/fields/index.ts';
import { type Body, recordLimits, writableLists } from '../../../engine/records/index.ts';
import { tablesOf } from '../../../engine/tables/index.ts';
import { listMembers, personLabel } from '../../access/identity/index.ts';
import { type InstanceSecrets, signing } from '../../access/secrets/index.ts';
import type { CurrentMember, Language } from '../shell/index.ts';
import { type Calls, type DataRecord, excerptLengths, prepareCalls } from './calls.ts';
import { resourceViewsOf } from './custom-values.ts';
import { unlessMissing } from './unless.ts';
import { resourceNoun, type Titles, textOf, titlesOf, truncate, valueText } from './values.ts';

/** A write that a member can perform on behalf of someone who proposes it. */
export interface ProposedWrite {
  /** The grant that the write requires on the resource. */
  readonly grant: string;
  readonly resource: string;
  /** ID of the record; null for a new record and for an action of the collection. */
  readonly id: string | null;
  /** The values of a record or, with `isInput`, the input of an action. */
  readonly body: Body;
  readonly isInput: boolean;
  /** Whether the record is in the trash until the write. */
  readonly isTrashed: boolean;
}

/** A proposed write as a member sees it. */
export interface WritePreview {
  /** The noun for a record of the resource, for example "lead". */
  readonly noun: string;
  /** The record's title; the new one for a new record. */
  readonly title: string;
  /** The record's URL; undefined if it does not exist. */
  readonly href: string | undefined;
  /** The record's entity tag; empty if the write does not depend on its version. */
  readonly tag: string;
  /** The previous and the proposed values, with the names of referenced records and users. */
  readonly values: readonly { readonly label: string; readonly before: string; readonly after: string }[];
}

/** Shows proposed writes to a member. */
export interface Previews {
  /** Returns a write as the member sees it, or undefined if the member cannot perform it or cannot see all of it. */
  readonly preview: (write: ProposedWrite) => Promise<WritePreview | undefined>;
  /** Returns the labels of the fields of a write's record that have changed since a time, as the member sees them. */
  readonly changedSince: (write: ProposedWrite, since: Date) => Promise<readonly string[]>;
}

/** Returns a function that prepares the previews of writes for a member's request. */
export function preparePreviews(
  app: FastifyInstance,
  services: {
    readonly database: Database;
    readonly resources: readonly Resource[];
    readonly secrets: InstanceSecrets;
  },
): (request: FastifyRequest, member: CurrentMember, language: Language) => Promise<Previews> {
  const { database, resources, secrets } = services;
  const callsOf = prepareCalls(app, { database, resources, signing: signing(secrets, 'cursors of lists') });
  return async (request, member, language) => {
    const { organization, grants, slug } = member.membership;
    const calls = callsOf(request, member);
    const memberViews = await resourceViewsOf({ database, resources }, member.membership);
    const views = new Map(memberViews.map((view) => [view.name, view]));
    const titles = titlesOf(memberViews);
    const nameOf = namesOf({ calls, views, titles }, async () => {
      const members = await listMembers(tablesOf(database), organization);
      return new Map(members.map((person) => [person.id, personLabel(person)]));
    });
    const preview: Previews['preview'] = async ({ grant, resource, id, body, isInput, isTrashed }) => {
      const view = views.get(resource);
      if (view === undefined || !calls.allows(view, grant)) return undefined;
      if (!isInput && !isWritable({ calls, views }, view, body)) return undefined;
      const stored = id === null ? undefined : await recordOf(calls, view, id, isTrashed);
      // Only a member who can read all records may learn that a record does not exist.
      const seesAll = recordLimits(grants, view.context.stored, 'read').length === 0;
      if (id !== null && stored === undefined && !seesAll) return undefined;
      const before = stored?.record ?? {};
      const shown = async (field: Field, value: unknown) =>
        truncate((await nameOf(field, value)) ?? valueText(field, value), excerptLengths.many);
      const values: Body = isInput ? {} : Object.fromEntries(flattened(view, body));
      const fields = view.definition.fields.filter(({ name }) => Object.hasOwn(values, name));
      const isList = (name: string) => writableLists(view.definition).includes(name);
      const others = isInput ? Object.entries(body) : Object.entries(values).filter(([name]) => isList(name));
      return {
        noun: resourceNoun(view, language),
        title: titles.of(view, id === null ? values : { ...before, id }),
        href: stored?.tag === undefined ? undefined : `/setup/o/${slug}/data/${resource}/${id}`,
        tag: stored?.tag ?? '',
        values: [
          ...(await Promise.all(
            fields.map(async (field) => ({
              label: fieldLabel(field),
              before: await shown(field, before[(field.aliasOf ?? field).name]),
              after: await shown(field, values[field.name]),
            })),
          )),
          ...others.map(([name, value]) => ({
            label: humanize(name),
            before: '',
            after: truncate(typeof value === 'string' ? value : documentText(value), excerptLengths.many),
          })),
        ],
      };
    };
    const changedSince: Previews['changedSince'] = async ({ resource, id }, since) => {
      const view = views.get(resource);
      if (view === undefined || id === null || !calls.allows(view, 'read')) return [];
      const items = (await unlessMissing(() => calls.history(view, id, '')))?.items ?? [];
      const names = new Set(items.filter(({ at }) => new Date(at) > since).flatMap(({ changed }) => changed));
      return view.definition.fields
        .filter(({ name, set }) => names.has(name) && set === undefined)
        .map((field) => fieldLabel(field));
    };
    return { preview, changedSince };
  };
}

/** Returns the values in a body. Those of custom fields have the names that they have in views of the admin UI. */
const flattened = ({ definition }: ResourceView, body: Body): [string, unknown][] =>
  Object.entries(body).flatMap(([name, value]): [string, unknown][] => {
    if (name !== customName || typeof value !== 'object' || value === null) return [[name, value]];
    const own = value as Body;
    return definition.fields.flatMap(({ name: field, custom }): [string, unknown][] =>
      custom === undefined || !Object.hasOwn(own, custom.key) ? [] : [[field, own[custom.key]]],
    );
  });

/** Returns whether a member can write, and therefore see, all values in a body. */
function isWritable(
  context: { readonly calls: Calls; readonly views: ReadonlyMap<string, ResourceView> },
  view: ResourceView,
  body: Body,
): boolean {
  const names = new Set(view.definition.fields.filter(({ readOnly }) => !readOnly).map(({ name }) => name));
  const lists = view.definition.expansion.filter(({ isWritable: isList }) => isList === true);
  return Object.entries(body).every(([name, value]) => {
    if (name === customName && typeof value === 'object' && value !== null) {
      const own = new Set(
        view.definition.fields.flatMap(({ custom, readOnly }) => (custom && !readOnly ? [custom.key] : [])),
      );
      return Object.keys(value).every((key) => own.has(key));
    }
    if (names.has(name)) return true;
    const list = lists.find((candidate) => candidate.name === name);
    const child = list && context.views.get(list.to ?? '');
    return (
      child !== undefined &&
      Array.isArray(value) &&
      value.every((item) => {
        const { isNew, values } = childOf(item);
        return context.calls.allows(child, isNew ? 'create' : 'update') && isWritable(context, child, values);
      })
    );
  });
}

/** Returns the values of a child, and whether it does not exist yet. */
function childOf(item: unknown): { readonly isNew: boolean; readonly values: Body } {
  const { id, ...values } = (typeof item === 'object' && item !== null ? item : {}) as Body;
  return { isNew: id === undefined || id === null, values };
}

/** Reads a record as the member sees it. @returns undefined if it does not exist; without a tag if it is in the trash */
async function recordOf(
  calls: Calls,
  view: ResourceView,
  id: string,
  isTrashed: boolean,
): Promise<{ readonly record: DataRecord; readonly tag?: string } | undefined> {
  if (!calls.allows(view, 'read')) return undefined;
  const read = async () => {
    const [latest] = isTrashed ? (await calls.history(view, id, '')).items : [];
    // Without a projection, because its empty tag would skip the version check of an approval.
    return latest?.action === 'trash' ? { record: latest.before ?? {} } : calls.read(view, id);
  };
  return unlessMissing(read);
}

/** Returns a function that returns the names of the users or records to which a value refers; undefined for other values. */
function namesOf(
  {
    calls,
    views,
    titles,
  }: { readonly calls: Calls; readonly views: ReadonlyMap<string, ResourceView>; readonly titles: Titles },
  findMembers: () => Promise<ReadonlyMap<string, string>>,
): (field: Field, value: unknown) => Promise<string | undefined> {
  let members: ReturnType<typeof findMembers> | undefined;
  const titleOf = async (resource: string | undefined, id: string): Promise<string> => {
    const view = views.get(resource ?? '');
    const record = view && (await recordOf(calls, view, id, false));
    return view === undefined || record === undefined ? `ID ${id}` : titles.of(view, record.record);
  };
  return async (field, value) => {
    if (value === null || value === undefined || value === '') return undefined;
    if (refersToUser(field)) {
      members ??= findMembers();
      return (await members).get(textOf(value)) ?? `ID ${textOf(value)}`;
    }
    if (refersToMany(field) && Array.isArray(value))
      return (await Promise.all(value.map((id) => titleOf(field.to, textOf(id))))).join(', ');
    if (field.type.refers !== true) return undefined;
    if (field.alternatives === undefined) return titleOf(field.to, textOf(value));
    const [resource = '', id = ''] = textOf(value).split('/');
    return titleOf(resource, id);
  };
}
