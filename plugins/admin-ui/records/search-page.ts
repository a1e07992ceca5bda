import type { FastifyInstance } from 'fastify';
import type { Resource, ResourceView } from '../../../engine/compile/index.ts';
import type { Database } from '../../../engine/database/index.ts';
import { resourceLabel } from '../../../engine/definition/index.ts';
import { isRowId } from '../../../engine/fields/index.ts';
import { equalityParameter } from '../../../engine/query/index.ts';
import {
  hueAt,
  isAdministrator,
  type Link,
  languageOf,
  listedSections,
  localeOf,
  membershipsOf,
  parametersOf,
  show,
  signedIn,
  textIn,
} from '../shell/index.ts';
import type { Calls, DataRecord, prepareCalls } from './calls.ts';
import { columnsOf } from './list-page.ts';
import { viewerOf } from './see-as.ts';
import { recordsTexts } from './texts/index.ts';
import { searchQuery } from './typed-references.ts';
import { unlessMissing } from './unless.ts';
import { isPhoneNumber, resourceNoun, textOf, titlesOf, valueText } from './values.ts';

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
    const language = languageOf(request);
    const t = recordsTexts(language);
    const base = `/setup/o/${membership.slug}`;
    const { q = '', go } = parametersOf(request);
    const text = searchQuery(q.trim());
    const calls = callsOf(request, member);
    const views = resources.map((resource) => resource.viewFor(membership.grants));
    const titles = titlesOf(views, localeOf(request));
    const listable = views.filter((resource) => calls.allows(resource, 'list'));
    const readable = listable.filter((resource) => calls.allows(resource, 'read'));
    const groupOf = async (resource: ResourceView) => {
      const { records, rest } = await matchesOf(calls, resource, text);
      const url = `${base}/data/${resource.name}`;
      const facts = columnsOf(resource, titles, []).filter(({ to }) => to === undefined);
      const links = records.map((record): Link & { hue: number; below: string | undefined } => ({
        label: titles.of(resource, record),
        below: facts.map((field) => valueText(field, record[field.name])).find((value) => value !== ''),
        href: `${url}/${textOf(record.id)}`,
        hue: hueAt(listable.indexOf(resource)),
      }));
      const all = rest && { label: t('showAll'), href: `${url}?${new URLSearchParams(rest)}` };
      return { title: resourceLabel(resource.definition), links: all ? [...links, all] : links };
    };
    const pages = [
      ...listable.map(({ name, definition }) => ({
        label: resourceLabel(definition),
        href: `${base}/data/${name}`,
      })),
      ...listable
        .filter((resource) => calls.allows(resource, 'create'))
        .map((resource) => ({
          label: t('create', { name: resourceNoun(resource, language) }),
          href: `${base}/data/${resource.name}/new`,
        })),
      ...(isAdministrator(membership)
        ? listedSections(app).map(({ name, title }) => ({
            label: textIn(title, language),
            href: `${base}/${name}`,
          }))
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
            { title: t('pages'), links: matching(pages) },
            { title: t('organizations'), links: matching(organizations) },
          ].filter(({ links }) => links.length > 0);
    const [only, ...others] = groups.flatMap(({ links }) => links);
    // The command palette opens the only result.
    if (go !== undefined && only !== undefined && others.length === 0) return reply.redirect(only.href, 303);
    return show(
      request,
      reply,
      {
        kind: 'home',
        title: t('searchTitle'),
        ...(text === '' && { intro: t('searchIntro') }),
        ...(text !== '' && groups.length === 0 && { intro: t('noResultsFor', { text }) }),
        lines: [],
        groups,
      },
      { language, org: membership, searchText: q, ...banner },
    );
  });
}

/**
 * Returns the records that a text identifies: the record with this ID, the search matches, and the records with this phone
 * number. If there are more, `rest` contains the parameters of the list with all of them.
 */
async function matchesOf(
  calls: Calls,
  resource: ResourceView,
  text: string,
): Promise<{ readonly records: readonly DataRecord[]; readonly rest?: Readonly<Record<string, string>> }> {
  const byId =
    isRowId(text) && calls.allows(resource, 'read') ? await recordWithId(calls, resource, text) : [];
  const names = [
    ...(resource.definition.search.length > 0 ? ['q'] : []),
    ...(isPhoneNumber(text) ? phoneParameters(resource) : []),
  ];
  const records = new Map(byId.map((record) => [textOf(record.id), record]));
  let rest: Readonly<Record<string, string>> | undefined;
  for (const name of names) {
    const { items, next } = await calls.list(resource, { [name]: text });
    const found = items.filter(({ id }) => !records.has(textOf(id)));
    for (const record of found.slice(0, maxMatches)) records.set(textOf(record.id), record);
    if (next !== undefined || found.length > maxMatches) rest ??= { [name]: text };
  }
  return { records: [...records.values()], ...(rest && { rest }) };
}

/** Returns the parameters that find records by a phone number. */
const phoneParameters = ({ definition: { filters } }: ResourceView): readonly string[] =>
  filters.flatMap(({ field }) =>
    field.comparison === 'digits' ? (equalityParameter(filters, field.name)?.name ?? []) : [],
  );

async function recordWithId(calls: Calls, resource: ResourceView, id: string): Promise<DataRecord[]> {
  const found = await unlessMissing(() => calls.read(resource, id));
  return found === undefined ? [] : [found.record];
}
