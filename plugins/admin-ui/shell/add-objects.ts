import type { FastifyInstance, FastifyRequest } from 'fastify';
import { tablesOf } from '../../../engine/tables/index.ts';
import { personOf } from './access.ts';
import { type AdminObject, type ContextOf, maxTabCount } from './admin-object.ts';
import { linkWithParameters, parametersOf } from './listing.ts';
import { languageOf, localeOf } from './locale.ts';
import type { ListContext, ListDefinition, ObjectContext, ObjectServices } from './object.ts';
import { type ListSpecification, rowList, specificationOf } from './row-list.ts';
import { type Section, section } from './section.ts';
import type { ListView } from './views.ts';

declare module 'fastify' {
  interface FastifyInstance {
    /** All modules' administrative objects. */
    adminObjects: RegisteredObject[];
  }
}

/** A list with its URL, so that tests cover every list. */
interface RegisteredObject {
  /** URL without query parameters. `:org` stands for the organization's slug. */
  readonly url: string;
  /** Query parameters that select the list. */
  readonly query: Readonly<Record<string, string>>;
  readonly list: ListSpecification;
  /** Action names, and whether each action has a page. */
  readonly actionPages: Readonly<Record<string, boolean>>;
}

/** Returns a function that creates the context for a request in a section. */
const contextIn =
  <Services extends ObjectServices>(
    app: FastifyInstance,
    services: Services,
    sectionName: string,
  ): ContextOf<Services> =>
  (admin, request) => {
    const { organization, slug } = admin.membership;
    return {
      ...{ ...admin, app, services, request, organization, slug, owner: organization },
      language: languageOf(request),
      tables: tablesOf(services.database),
      urlOf: (page) => `/setup/o/${slug}/${sectionName}${page === undefined ? '' : `/${page}`}`,
    };
  };

/** Registers a list. @param show selects the list; undefined for a section's first list */
function register(
  app: FastifyInstance,
  sectionName: string,
  show: string | undefined,
  { list, actionPages }: Pick<RegisteredObject, 'list' | 'actionPages'>,
): void {
  const query = show === undefined ? {} : { show };
  app.adminObjects.push({ url: `/setup/o/:org/${sectionName}`, query, list, actionPages });
}

/** Registers one of the logged-in user's lists and returns its loader. @param url the list's URL */
export function userList<Row extends { readonly id: string }, Services extends ObjectServices>(
  app: FastifyInstance,
  services: Services,
  url: string,
  definition: ListDefinition<Row, ListContext<Services>>,
): (request: FastifyRequest) => Promise<ListView> {
  app.adminObjects.push({ url, query: {}, list: specificationOf(definition), actionPages: {} });
  return (request) =>
    rowList(definition, {
      ...{ app, services, request, owner: personOf(request).session.user.id },
      language: languageOf(request),
      tables: tablesOf(services.database),
      urlOf: (page) => (page === undefined ? url : `${url}/${page}`),
    });
}

/** Registers a list in a section that has other pages or lists. Returns a function that loads the list. */
export function sectionList<Row extends { readonly id: string }, Services extends ObjectServices>(
  app: FastifyInstance,
  services: Services,
  definition: ListDefinition<Row, ObjectContext<Services>>,
  sectionName: string,
  show?: string,
): Section['load'] {
  register(app, sectionName, show, { list: specificationOf(definition), actionPages: {} });
  const contextOf = contextIn(app, services, sectionName);
  return (admin, request) => rowList(definition, contextOf(admin, request));
}

/**
 * Adds a section with one or more objects to an organization's setup. The section gets its name and title
 * from the first object. If it has several objects, tabs with counts switch between them.
 */
export function addObjects<Services extends ObjectServices>(
  app: FastifyInstance,
  services: Services,
  [main, ...others]: readonly [AdminObject<Services>, ...AdminObject<Services>[]],
): void {
  const contextOf = contextIn(app, services, main.name);
  const open = (object: AdminObject<Services>, show: string | undefined) => {
    register(app, main.name, show, object);
    return { title: object.tab ?? object.title, show, ...object.partsOf(contextOf) };
  };
  const first = open(main, undefined);
  const objects = [first, ...others.map((object) => open(object, object.name))];
  section(app, services.database, {
    name: main.name,
    title: main.title,
    group: main.group,
    icon: main.icon,
    isListed: main.isListed,
    isTranslated: true,
    done: Object.assign({}, ...objects.map(({ done }) => done)),
    pages: Object.assign({}, ...objects.map(({ pages }) => pages)),
    wholeValues: Object.assign({}, ...objects.map(({ wholeValues }) => wholeValues)),
    once: objects.flatMap(({ once }) => once),
    actions: Object.assign({}, ...objects.map(({ actions }) => actions)),
    load: async (admin, request) => {
      const context = contextOf(admin, request);
      const selected = objects.find(({ show }) => show === parametersOf(request).show) ?? first;
      const list = await selected.list(context);
      if (objects.length === 1) return list;
      const numbers = new Intl.NumberFormat(localeOf(request));
      const tabs = objects.map(async ({ title, show, count }) => {
        const number = await count(context);
        const counted = `${numbers.format(Math.min(number, maxTabCount))}${number > maxTabCount ? '+' : ''}`;
        return {
          label: `${title(context.language)} (${counted})`,
          href: linkWithParameters(context.urlOf(), {}, { show }),
          current: show === selected.show,
        };
      });
      return { ...list, views: { tabs: await Promise.all(tabs), links: [], save: undefined } };
    },
  });
}
