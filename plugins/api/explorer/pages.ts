import { join, relative } from 'node:path';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { projectFolder } from '../../../engine/config/index.ts';
import { errorCodes, errorCodesPath, errors } from '../../../engine/errors.ts';
import { rejectOtherMethods } from '../../../engine/http/index.ts';
import { membershipBySlug, type Person } from '../../access/identity/index.ts';
import {
  languageOf,
  membershipsOf,
  readAssets,
  recentMemberships,
  registerPages,
  rememberOrganization,
  viewsIn,
} from '../../admin-ui/shell/index.ts';
import { builtOnce } from './built-once.ts';
import type { OpenApiDocument } from './document.ts';
import { type ExplorerSection, sectionsOf } from './sections.ts';
import { explorerTexts } from './texts/index.ts';

/** A diagram of a field's transitions. */
export interface Diagram {
  readonly resource: string;
  readonly field: string;
  /** The URL of the image. */
  readonly path: string;
  /** The image's content in words. */
  readonly sentences: readonly string[];
}

/** Options for the explorer's pages. */
interface ExplorerOptions {
  /** Returns the OpenAPI document. */
  readonly document: () => Promise<OpenApiDocument>;
  /** Names of the resources. */
  readonly resources: readonly string[];
  readonly diagrams: readonly Diagram[];
}

const viewPath = viewsIn(import.meta.dirname);
const view = (name: string) => relative(projectFolder, viewPath(name));
const assets = readAssets(
  '/docs',
  ['explorer.css', 'explorer.js'].map((name) => join(import.meta.dirname, 'assets', name)),
);

/** Returns whether a status code belongs to an error. */
const isError = (status: string): boolean => /^[45]/.test(status);

/** Adds the values that a section's template needs. */
const sectionView = ({ operations, ...section }: ExplorerSection, diagrams: readonly Diagram[]) => ({
  ...section,
  isSection: true,
  isEnglish: !section.isResource,
  diagrams: diagrams.filter(({ resource }) => resource === section.name),
  operations: operations.map(({ body, responses, ...operation }) => ({
    ...operation,
    ...(body !== undefined && { body: { ...body, severalTypes: body.types.length > 1 } }),
    responses: responses.filter(({ status }) => !isError(status)),
    errors: responses.filter(({ status }) => isError(status)),
  })),
});

/** Returns the pages' data, which is the same for every user. */
function explorerData(document: OpenApiDocument, { resources, diagrams }: ExplorerOptions) {
  const sections = sectionsOf(document, resources).filter(({ operations }) => operations.length > 0);
  const groups = [
    { isRecords: true, sections: sections.filter(({ isResource }) => isResource) },
    { isRecords: false, sections: sections.filter(({ isResource }) => !isResource) },
  ].filter((group) => group.sections.length > 0);
  const [first] = groups.flatMap((group) => group.sections);
  const { title, summary, description } = document.info;
  return {
    groups,
    start: {
      ...{ title, summary, description, isEnglish: true },
      first: first && {
        ...{ name: first.name, title: first.title, isResource: first.isResource },
        operation: first.operations[0]?.id,
      },
    },
    sections: new Map(sections.map((section) => [section.name, sectionView(section, diagrams)])),
  };
}

/** Returns the logged-in user, or undefined without a valid session or if the database is unavailable. */
async function personIn(app: FastifyInstance, request: FastifyRequest): Promise<Person | undefined> {
  try {
    return await app.identify(request);
  } catch {
    return undefined;
  }
}

/** Returns the user's organizations. The current one is the one in the URL or, without one, the one visited last. */
function organizationsOf(request: FastifyRequest, reply: FastifyReply, person: Person) {
  const { org } = request.query as { readonly org?: unknown };
  const chosen = typeof org === 'string' ? membershipBySlug(person.session.memberships, org) : undefined;
  if (chosen !== undefined) rememberOrganization(request, reply, chosen);
  const all = membershipsOf(person);
  const current = chosen ?? recentMemberships(request, person)[0] ?? all[0];
  if (current === undefined) return undefined;
  if (all.length < 2) return { single: current };
  return { several: all.map(({ slug, name }) => ({ slug, name, isCurrent: slug === current?.slug })) };
}

/**
 * Serves the explorer's pages. Their scripts send requests with the browser's session cookie, which they cannot read, or with a
 * key that the user enters.
 */
export async function explorerPages(app: FastifyInstance, options: ExplorerOptions): Promise<void> {
  await registerPages(app, { layout: viewPath('layout') });
  assets.serve(app);

  const prepared = builtOnce(async () => explorerData(await options.document(), options));
  const send = async (
    request: FastifyRequest,
    reply: FastifyReply,
    name: string,
    pageIn: (t: ReturnType<typeof explorerTexts>) => Readonly<Record<string, unknown>>,
  ) => {
    const person = await personIn(app, request);
    const user = person?.session.user;
    const language = languageOf({ headers: request.headers, person: person ?? null });
    const { groups } = await prepared();
    reply.headers({ 'content-type': 'text/html; charset=utf-8', 'content-language': language });
    return reply.viewAsync(view(name), {
      ...pageIn(explorerTexts(language)),
      language,
      groups,
      path: request.url.split('?')[0],
      assets: { css: assets.url('explorer.css'), js: assets.url('explorer.js') },
      user,
      userName: user && (user.name || user.email),
      organizations: person && organizationsOf(request, reply, person),
    });
  };
  app.get('/', async (request, reply) => {
    const { start } = await prepared();
    return send(request, reply, 'start', () => start);
  });
  const codes = Object.entries(errorCodes).map(([code, meaning]) => ({ code, meaning }));
  const codesPath = errorCodesPath.replace(/^\/docs/, '');
  app.get(codesPath, (request, reply) =>
    send(request, reply, 'error-codes', (t) => ({ title: t('errorCodes'), isSection: true, codes })),
  );
  app.get('/:section', async (request, reply) => {
    const { section } = request.params as { readonly section: string };
    const page = (await prepared()).sections.get(section);
    if (page === undefined) throw errors.notFound();
    return send(request, reply, 'section', () => page);
  });
  for (const url of ['/', codesPath, '/:section', '/assets/:version/:name'])
    rejectOtherMethods(app, url, ['GET', 'HEAD']);
}
