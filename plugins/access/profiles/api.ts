import type { FastifyInstance } from 'fastify';
import type { Fragment, Resource } from '../../../engine/compile/index.ts';
import type { Database } from '../../../engine/database/index.ts';
import type { ResourceDefinition } from '../../../engine/definition/index.ts';
import { errors } from '../../../engine/errors.ts';
import { json, rejectOtherMethods } from '../../../engine/http/index.ts';
import type { Query } from '../../../engine/query/index.ts';
import { actionNames, actionsOfAll } from '../../../engine/records/index.ts';
import { actionsInScope, lockOn, permissionsOn } from './permissions.ts';

const url = '/auth/permissions';

/** Registers the route that returns what the caller can do. */
export function permissionRoutes(
  app: FastifyInstance,
  { database, resources }: { readonly database: Database; readonly resources: readonly Resource[] },
): void {
  app.get(url, async (request, reply) => {
    const principal = await app.authenticate(request);
    const query = request.query as Query;
    const single = (parameter: 'resource' | 'id'): string | undefined => {
      const value = query[parameter];
      if (typeof value === 'object') throw errors.invalidParameter(parameter, 'must not be repeated');
      return value;
    };
    const [name, id] = [single('resource'), single('id')];
    if (id !== undefined && name === undefined) throw errors.invalidParameter('id', 'requires resource');
    const selected = name === undefined ? resources : resources.filter((resource) => resource.name === name);
    const [first] = selected;
    if (first === undefined) {
      const names = resources.map((resource) => resource.name);
      throw errors.invalidParameter('resource', `must be one of ${names.join(', ')}`);
    }
    const inScope = id === undefined ? undefined : await actionsInScope(database, first, principal, id);
    const lock = id === undefined ? undefined : await lockOn(database, first, principal, id);
    const entries = selected.map((resource) => [
      resource.name,
      permissionsOn(resource, principal, inScope, lock),
    ]);
    reply.header('content-type', json).header('cache-control', 'no-store');
    return JSON.stringify({ resources: Object.fromEntries(entries) });
  });
  rejectOtherMethods(app, url, ['GET', 'HEAD']);
}

const ref = (kind: string, name: string) => ({ $ref: `#/components/${kind}/${name}` });
const names = (description: string) => ({ type: 'array', description, items: { type: 'string' } });

/** Returns the OpenAPI description of the route that returns what the caller can do with these resources. */
export const permissionsFragment = (definitions: readonly ResourceDefinition[]): Fragment => {
  const hasLocks = definitions.some(({ locked }) => locked !== undefined);
  return {
    tag: { name: 'permissions', description: 'What the caller can do.' },
    paths: {
      [url]: {
        get: {
          operationId: 'getPermissions',
          summary: 'Get your permissions',
          description:
            'Returns the actions that the caller can perform on each resource, and the fields that it can read and write. With `resource` and `id`, returns the permissions on one record. For what is not allowed, `grant` is the grant that would allow it.',
          tags: ['permissions'],
          parameters: [
            ref('parameters', 'org'),
            {
              name: 'resource',
              in: 'query',
              description: 'Returns only the permissions on this resource.',
              schema: { type: 'string' },
            },
            {
              name: 'id',
              in: 'query',
              description: 'ID of a record. Requires `resource`.',
              schema: { type: 'integer', format: 'int64' },
            },
          ],
          responses: {
            200: {
              description: "The caller's permissions.",
              content: { 'application/json': { schema: ref('schemas', 'Permissions') } },
            },
            400: ref('responses', 'BadRequest'),
            401: ref('responses', 'Unauthorized'),
            403: ref('responses', 'Forbidden'),
            404: ref('responses', 'NotFound'),
            500: ref('responses', 'Failure'),
            503: ref('responses', 'Unavailable'),
          },
        },
      },
    },
    schemas: {
      Permissions: {
        type: 'object',
        required: ['resources'],
        properties: {
          resources: {
            type: 'object',
            description: 'The permissions on each resource.',
            additionalProperties: ref('schemas', 'ResourcePermissions'),
          },
        },
      },
      ResourcePermissions: {
        type: 'object',
        required: ['actions', 'fields'],
        properties: {
          actions: {
            type: 'object',
            required: actionNames,
            properties: Object.fromEntries(
              actionsOfAll(definitions).map((action) => [action, ref('schemas', 'ActionPermission')]),
            ),
          },
          own: {
            type: 'object',
            description:
              'Actions of modules that have a grant of their own. Absent if the resource has no such action.',
            additionalProperties: ref('schemas', 'ActionPermission'),
          },
          ...(hasLocks && {
            locked: {
              type: 'string',
              description:
                'Why the record cannot be changed, except by transitions of the writable fields. Absent if the record is not locked.',
            },
          }),
          fields: {
            type: 'object',
            required: ['readable', 'writable', 'missing'],
            properties: {
              readable: names('Fields that the caller can read.'),
              writable: names('Fields that the caller can write.'),
              missing: {
                type: 'array',
                description: 'Fields in groups for which the caller has no grant.',
                items: {
                  type: 'object',
                  required: ['field', 'grant'],
                  properties: {
                    field: { type: 'string' },
                    grant: { type: 'string', description: 'The grant that would allow it.' },
                  },
                },
              },
            },
          },
        },
      },
      ActionPermission: {
        type: 'object',
        required: ['allowed'],
        properties: {
          allowed: {
            type: 'boolean',
            description:
              'Whether the caller can perform the action on the record or, without `id`, on some records of the resource.',
          },
          scopes: names(
            "Scopes to which the caller's grants limit the action. A record must be in at least one of them. Absent if the action is not limited.",
          ),
          within: names(
            "For a key on behalf of a member, scopes to which the member's grants also limit the action.",
          ),
          grant: { type: 'string', description: 'The grant that would allow the action.' },
          ...(hasLocks && {
            reason: {
              type: 'string',
              description:
                'Why the action is not allowed, if the caller has the grant but the record is locked.',
            },
          }),
        },
      },
    },
    examples: {
      Permissions: {
        resources: {
          orders: {
            actions: {
              ...{ list: { allowed: true }, read: { allowed: true }, create: { allowed: true } },
              update: { allowed: true, scopes: ['own'] },
              delete: { allowed: false, grant: 'orders:delete' },
            },
            fields: {
              readable: ['id', 'name'],
              writable: ['name'],
              missing: [{ field: 'margin', grant: 'orders.finance:read' }],
            },
          },
        },
      },
    },
  };
};
