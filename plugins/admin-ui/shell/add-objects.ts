import type { FastifyInstance, FastifyRequest } from 'fastify';
import { tablesOf } from '../../../engine/tables/index.ts';
import { personOf } from './access.ts';
import type { AdminObject, ContextOf } from './admin-object.ts';
import { linkWithParameters, parametersOf } from './listing.ts';
import type { ListContext, ListDefinition, ObjectServices } from './object.ts';
import { rowList, type StatedList, statedList } from './row-list.ts';
import { type Section, section } from './section.ts';
import type { ListView } from './views.ts';

declare module 'fastify' {
  interface FastifyInstance {
    /** The administrative objects of all modules. */
    adminObjects: RegisteredObject[];
  }
}

/** A list with its URL, so that tests cover every list. */
export interface RegisteredObject {
  /** URL without query parameters. `:org` stands for the slug of the organization. */
  readonly url: string;
  /** Query parameters that select the list. */
  readonly query: Readonly<Record<string, string>>;
  readonly list: StatedList;
  /** Names of the actions, and whether each has a page. */
  readonly actionPages: Readonly<Record<string, boolean>>;
}

/** Returns the parts of an object in a section, and registers it. @param show value of `show` that selects the list */
function openObject<Services extends ObjectServices>(
  app: FastifyInstance,
  services: Services,
  { partsOf, title, list, actionPages }: AdminObject<Services>,
  sectionName: string,
  show: string | undefined,
) {
  const query = show === undefined ? {} : { show };
  app.adminObjects.push({ url: `/setup/o/:org/${sectionName}`, query, list, actionPages });
  const contextOf: ContextOf<Services> = (admin, request) => {
    const { organization, slug } = admin.membership;
    return {
      ...{ ...admin, app, services, request, organization, slug, owner: organization },
      tables: tablesOf(services.database),
      urlOf: (page) => `/setup/o/${slug}/${sectionName}${page === undefined ? '' : `/${page}`}`,
    };
  };
  return { title, show, contextOf, ...partsOf(contextOf) };
}

/** Returns a function that loads a list of the logged-in user, and registers the list. @param url URL of the list */
export function userList<Row extends { readonly id: string }, Services extends ObjectServices>(
  app: FastifyInstance,
  services: Services,
  url: string,
  definition: ListDefinition<Row, ListContext<Services>>,
): (request: FastifyRequest) => Promise<ListView> {
  app.adminObjects.push({ url, query: {}, list: statedList(definition), actionPages: {} });
  return (request) =>
    rowList(definition, {
      ...{ app, services, request, owner: personOf(request).session.user.id },
      tables: tablesOf(services.database),
      urlOf: (page) => (page === undefined ? url : `${url}/${page}`),
    });
}

/** Returns a function that loads the list of an object, for a section with other pages or lists. */
export function objectList<Services extends ObjectServices>(
  app: FastifyInstance,
  services: Services,
  object: AdminObject<Services>,
  sectionName: string,
  show?: string,
): Section['load'] {
  const { contextOf, list } = openObject(app, services, object, sectionName, show);
  return (admin, request) => list(contextOf(admin, request));
}

/**
 * Adds the section of one or more objects to an organization's setup. It has the name and the title of the first
 * object. Links with counts switch between several objects.
 */
export function addObjects<Services extends ObjectServices>(
  app: FastifyInstance,
  services: Services,
  [main, ...others]: readonly [AdminObject<Services>, ...AdminObject<Services>[]],
): void {
  const first = openObject(app, services, main, main.name, undefined);
  const objects = [
    first,
    ...others.map((object) => openObject(app, services, object, main.name, object.name)),
  ];
  section(app, services.database, {
    name: main.name,
    title: main.title,
    done: Object.assign({}, ...objects.map(({ done }) => done)),
    pages: Object.assign({}, ...objects.map(({ pages }) => pages)),
    once: objects.flatMap(({ once }) => once),
    actions: Object.assign({}, ...objects.map(({ actions }) => actions)),
    load: async (admin, request) => {
      const context = first.contextOf(admin, request);
      const selected = objects.find(({ show }) => show === parametersOf(request).show) ?? first;
      const list = await selected.list(context);
      if (objects.length === 1) return list;
      const chips = objects.map(async ({ title, show, count }) => ({
        label: `${title} (${await count(context)})`,
        href: linkWithParameters(context.urlOf(), {}, { show }),
        current: show === selected.show,
      }));
      return { ...list, chips: await Promise.all(chips) };
    },
  });
}
