import type { FastifyInstance } from 'fastify';
import type { Resource, ResourceView } from '../../../engine/compile/index.ts';
import type { Database } from '../../../engine/database/index.ts';
import { resourceLabel } from '../../../engine/definition/index.ts';
import { HttpError } from '../../../engine/errors.ts';
import { isRowId } from '../../../engine/fields/index.ts';
import {
  hueAt,
  isAdministrator,
  type Link,
  localeOf,
  membershipsOf,
  parametersOf,
  show,
  signedIn,
} from '../shell/index.ts';
import type { Calls, DataRecord, prepareCalls } from './calls.ts';
import { viewerOf } from './see-as.ts';
import { searchQuery } from './typed-references.ts';
import { resourceNoun, textOf, titlesOf } from './values.ts';

/** Number of records shown per resource. */
const maxMatches = 6;

/** Registers the page that searches all resources, pages and organizations. */
export function searchPage(
  app: FastifyInstance,
  { resources, database }: { readonly resources: readonly Resource[]; readonly database: Database },
  callsOf: ReturnType<typeof prepareCalls>,
): void {
  app.get('/o/:org/search', { preHandler: signedIn(app) }, async (request, reply) => {
    const { member, banner } = await viewerOf(database, request, reply);
    const { membership, person } = member;
    const base = `/setup/o/${membership.slug}`;
    const { q = '', go } = parametersOf(request);
    const text = searchQuery(q.trim());
    const calls = callsOf(request, member);
    const views = resources.map((resource) => resource.viewFor(membership.grants));
    const titles = titlesOf(views, localeOf(request));
    const listable = views.filter((resource) => calls.allows(resource, 'list'));
    const readable = listable.filter((resource) => calls.allows(resource, 'read'));
    const groupOf = async (resource: ResourceView) => {
      const { records, isComplete } = await matchesOf(calls, resource, text);
      const url = `${base}/data/${resource.name}`;
      const links = records.map((record): Link & { hue: number } => ({
        label: titles.of(resource, record),
        href: `${url}/${textOf(record.id)}`,
        hue: hueAt(listable.indexOf(resource)),
      }));
      const all = { label: 'Show all', href: `${url}?${new URLSearchParams({ q: text })}` };
      return { title: resourceLabel(resource.definition), links: isComplete ? links : [...links, all] };
    };
    const pages = [
      ...listable.map(({ name, definition }) => ({
        label: resourceLabel(definition),
        href: `${base}/data/${name}`,
      })),
      ...listable
        .filter((resource) => calls.allows(resource, 'create'))
        .map((resource) => ({
          label: `Create ${resourceNoun(resource)}`,
          href: `${base}/data/${resource.name}/new`,
        })),
      ...(isAdministrator(membership)
        ? app.setupSections.map(({ name, title }) => ({ label: title, href: `${base}/${name}` }))
        : []),
    ];
    const organizations = membershipsOf(person).map(({ name, slug }) => ({
      label: name,
      href: `/setup/o/${slug}`,
    }));
    const matching = (links: readonly Link[]) =>
      links.filter(({ label }) => label.toLowerCase().includes(text.toLowerCase())).slice(0, maxMatches);
    const groups =
      text === ''
        ? []
        : [
            ...(await Promise.all(readable.map(groupOf))),
            { title: 'Pages', links: matching(pages) },
            { title: 'Organizations', links: matching(organizations) },
          ].filter(({ links }) => links.length > 0);
    const [only, ...others] = groups.flatMap(({ links }) => links);
    // The command palette opens the only result.
    if (go !== undefined && only !== undefined && others.length === 0) return reply.redirect(only.href, 303);
    return show(
      request,
      reply,
      {
        kind: 'home',
        title: 'Search',
        ...(text === '' && { intro: 'Enter a name, an email address or an ID.' }),
        ...(text !== '' && groups.length === 0 && { intro: `No results for “${text}”.` }),
        lines: [],
        groups,
      },
      { org: membership, searchText: q, ...banner },
    );
  });
}

/** Returns the records that a text identifies: the record with this ID, and the search matches. */
async function matchesOf(
  calls: Calls,
  resource: ResourceView,
  text: string,
): Promise<{ readonly records: readonly DataRecord[]; readonly isComplete: boolean }> {
  const byId =
    isRowId(text) && calls.allows(resource, 'read') ? await recordWithId(calls, resource, text) : [];
  if (resource.definition.search.length === 0) return { records: byId, isComplete: true };
  const { items, next } = await calls.list(resource, { q: text });
  const found = items.filter(({ id }) => byId.every((record) => record.id !== id));
  return {
    records: [...byId, ...found.slice(0, maxMatches)],
    isComplete: next === undefined && found.length <= maxMatches,
  };
}

async function recordWithId(calls: Calls, resource: ResourceView, id: string): Promise<DataRecord[]> {
  try {
    return [(await calls.read(resource, id)).record];
  } catch (error) {
    if (error instanceof HttpError && error.status === 404) return [];
    throw error;
  }
}
