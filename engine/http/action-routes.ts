import type { FastifyInstance } from 'fastify';
import type { Resource } from '../compile/index.ts';
import type { Database } from '../database/index.ts';
import {
  acceptsEmptyBody,
  actionPath,
  customFieldsIn,
  idOfJob,
  jobsPath,
  type TextSigner,
} from '../records/index.ts';
import { authorize } from './authorize.ts';
import { decodeBody } from './compression.ts';
import { rejectOtherMethods } from './methods.ts';
import { apiPrefix } from './openapi.ts';
import { RequestInput } from './operation-input.ts';

/** Adds the routes of a resource's actions. @param path base path of the resource */
export function actionRoutes(
  app: FastifyInstance,
  {
    resource,
    database,
    path,
    signing,
  }: {
    readonly resource: Resource;
    readonly database: Database;
    readonly path: string;
    readonly signing: TextSigner;
  },
): void {
  for (const action of resource.actions) {
    const { module, name, grant } = action;
    const url = `${path}${actionPath(action)}`;
    app.route({
      method: 'POST',
      url,
      onRequest: authorize(app, resource, grant),
      preValidation: decodeBody,
      handler: async (request, reply) => {
        const input = new RequestInput(request, reply, { acceptsEmpty: acceptsEmptyBody(action) }, signing);
        const { caller } = input;
        input.customFields = await customFieldsIn(database, resource, caller);
        const { run } = resource.viewFor(caller.principal.grants).actionNamed(module, name);
        const { json, isReplayed } = await run(database, input);
        if (isReplayed) reply.header('idempotency-replayed', 'true');
        if (action.job) reply.code(202).header('location', `${apiPrefix}${jobsPath}/${idOfJob(json)}`);
        return json;
      },
    });
    rejectOtherMethods(app, url, ['POST']);
  }
}
