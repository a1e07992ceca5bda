import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Resource } from '../../../engine/compile/index.ts';
import type { Database } from '../../../engine/database/index.ts';
import { errors } from '../../../engine/errors.ts';
import { allows } from '../../../engine/records/index.ts';
import { tablesOf } from '../../../engine/tables/index.ts';
import { findPeople, listMembers } from '../../access/identity/index.ts';
import { type InstanceSecrets, signing } from '../../access/secrets/index.ts';
import { addDoneTexts, addRecords, filterLink, memberOf, show, signedIn } from '../shell/index.ts';
import { prepareCalls } from './calls.ts';
import { csvPages } from './csv-pages.ts';
import { editPages } from './edit-pages.ts';
import { listPage } from './list-page.ts';
import { recordPages } from './record-pages.ts';
import { referencesOf } from './references.ts';
import type { DataHandler, DataRoutes } from './routes.ts';
import { humanize, titlesOf } from './values.ts';

/** Services required for the records pages. */
export interface DataServices {
  readonly resources: readonly Resource[];
  readonly database: Database;
  readonly secrets: InstanceSecrets;
}

/** Registers a list, a record page and forms for each resource, generated from its definition. */
export function dataPages(app: FastifyInstance, { resources, database, secrets }: DataServices): void {
  const titles = titlesOf(resources);
  const callsOf = prepareCalls(app, { resources, database, signing: signing(secrets, 'cursors of lists') });
  addRecords(app, ({ grants }) =>
    resources
      .filter(({ name }) => allows(grants, name, 'list'))
      .map(({ name }) => ({ name: `data/${name}`, title: humanize(name) })),
  );
  addDoneTexts(app, {
    'record-created': '{} created.',
    'record-saved': '{} saved.',
    'record-same': 'No changes to {}.',
    'record-deleted': '{} deleted.',
    'record-undone': 'Change to {} undone.',
    'record-restored': '{} restored with a new ID.',
    'records-imported': '{} imported.',
  });

  const handlerFor = (handle: DataHandler) => async (request: FastifyRequest, reply: FastifyReply) => {
    const member = memberOf(app, request);
    const { slug } = member.membership;
    const { resource: name } = request.params as { resource: string };
    const resource = resources.find((candidate) => candidate.name === name);
    if (resource === undefined) throw errors.notFound();
    const base = `/setup/o/${slug}/data`;
    const path = `${base}/${name}`;
    const frame = { org: member.membership, section: `data/${name}`, path };
    return handle({
      ...{ request, reply, member, resource, path, titles },
      calls: callsOf(request, member),
      references: referencesOf(resources, titles, base),
      listMembers: () => listMembers(tablesOf(database), member.membership.organization),
      findPeople: (ids) => findPeople(tablesOf(database), ids),
      sendPage: (page, more = {}) => show(request, reply, page, { ...frame, ...more }),
    });
  };

  const assertMember = async (request: FastifyRequest) => {
    memberOf(app, request);
  };
  const url = (path: string) => `/o/:org/data/:resource${path}`;
  const routesOn = (scope: FastifyInstance): DataRoutes => ({
    get: (path, handle, config = {}) =>
      scope.get(url(path), { preHandler: signedIn(app), config }, handlerFor(handle)),
    post: (path, handle, options = { bodyLimit: 1024 * 1024 }) =>
      scope.post(
        url(path),
        // Checked before the body is read, because an unauthenticated body could be large.
        { onRequest: [signedIn(app), assertMember], preHandler: app.csrfProtection, ...options },
        handlerFor(handle),
      ),
  });
  // The CSV pages need a separate scope, because they replace the body parsers.
  app.register(async (scope) => csvPages(scope, routesOn(scope), database));
  app.register(async (scope) => {
    const routes = routesOn(scope);
    routes.get('', async (context) => {
      const { request, reply, path, sendPage } = context;
      const redirectUrl = filterLink(request, path);
      if (redirectUrl !== undefined) return reply.redirect(redirectUrl, 303);
      const parameters = new URLSearchParams(request.url.split('?')[1] ?? '');
      const page = await listPage({ ...context, parameters });
      if (page.problem !== undefined) reply.code(400);
      return sendPage({ kind: 'list', ...page });
    });
    editPages(routes);
    recordPages(routes);
  });
}
