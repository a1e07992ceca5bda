import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { Resource } from '../../../engine/compile/index.ts';
import type { Database } from '../../../engine/database/index.ts';
import type { Actor, AuditConfig } from '../../../engine/effects/index.ts';
import { errors, type FieldIssue } from '../../../engine/errors.ts';
import { authorize, json, jsonId, rejectOtherMethods } from '../../../engine/http/index.ts';
import {
  type Action,
  allows,
  fieldsObject,
  forgetCustomFields,
  type Grants,
  groupObject,
  type Principal,
  readBody,
} from '../../../engine/records/index.ts';
import { type Tables, tablesOf, transaction } from '../../../engine/tables/index.ts';
import {
  type CustomField,
  changeCustomField,
  createCustomField,
  findCustomField,
  listCustomFields,
  setDeleted,
} from './custom-fields.ts';
import { readChange, readNewField } from './input.ts';
import { fieldRetentionDays } from './retention.ts';

/** Services required for the API of custom fields. */
interface CustomFieldServices {
  readonly config: AuditConfig;
  readonly database: Database;
  /** The resources whose records have custom fields. */
  readonly resources: readonly Resource[];
}

/** Path of the custom fields of a resource. */
export const customFieldsPath = '/fields';
const bodyLimit = 64 * 1024;

/** A request's context. */
interface FieldRequest {
  readonly organization: string;
  readonly resource: string;
  readonly definition: Resource['definition'];
  readonly grants: Grants;
  readonly actor: Actor;
  readonly tables: Tables;
  /** Runs work in a transaction. Afterwards, requests to this node use the changed fields. */
  readonly change: (work: (tables: Tables) => Promise<void>) => Promise<void>;
  /** Loads the field whose name is in the path. @throws HttpError 404 if it does not exist or its state differs */
  readonly load: (isDeleted?: boolean) => Promise<CustomField>;
  readonly body: () => Readonly<Record<string, unknown>>;
  readonly request: FastifyRequest;
}

/** An operation of the API. */
export interface FieldOperation {
  readonly method: 'GET' | 'POST' | 'PATCH' | 'DELETE';
  /** Path below the path of the resource's custom fields. */
  readonly path: '' | '/:name' | '/:name/restore';
  readonly action: Action;
  readonly operationId: string;
  readonly summary: string;
  readonly description: string;
  /** Name of the request body's schema. */
  readonly body?: string;
  /** Name of the response's schema. */
  readonly success: string;
  readonly isCreation?: true;
  readonly handle: (request: FieldRequest) => Promise<object>;
}

/** The operations of the API. */
export const fieldOperations: readonly FieldOperation[] = [
  {
    method: 'GET',
    path: '',
    action: 'list',
    operationId: 'listCustomFields',
    summary: 'List custom fields',
    description:
      "Lists the custom fields that the caller's organization has added to a resource, in the order in which they were created. Fields of a field group that the caller cannot read do not exist for the caller. Requires the grant `list` on `fields`.",
    success: 'CustomFieldList',
    handle: async ({ tables, organization, resource, grants, request }) => {
      const { deleted = 'false' } = request.query as Readonly<Record<string, unknown>>;
      if (deleted !== 'true' && deleted !== 'false')
        throw errors.invalidParameter('deleted', 'must be true or false');
      const fields = (await listCustomFields(tables, organization)).filter(
        (field) =>
          field.resource === resource &&
          (field.deletedAt !== null) === (deleted === 'true') &&
          canRead(grants, field),
      );
      return { data: fields.map(toJson) };
    },
  },
  {
    method: 'POST',
    path: '',
    action: 'create',
    operationId: 'createCustomField',
    summary: 'Create a custom field',
    description:
      'Adds a field to the records of a resource, in the organization of the caller. Records contain its value in `custom`. Requires the grant `create` on `fields`.',
    body: 'CustomFieldInput',
    success: 'CustomField',
    isCreation: true,
    handle: async ({ tables, organization, resource, definition, grants, actor, change, body }) => {
      const input = checked((issues) => readNewField(definition, body(), issues));
      assertReadable(grants, { resource, ...input });
      const key = { organization, resource, name: input.name };
      await change((tx) =>
        createCustomField(tx, actor, key, input.options, (field) => canRead(grants, field)),
      );
      return toJson((await findCustomField(tables, key)) as CustomField);
    },
  },
  {
    method: 'GET',
    path: '/:name',
    action: 'read',
    operationId: 'getCustomField',
    summary: 'Read a custom field',
    description: 'Returns a custom field. Requires the grant `read` on `fields`.',
    success: 'CustomField',
    handle: async ({ load }) => toJson(await load()),
  },
  {
    method: 'PATCH',
    path: '/:name',
    action: 'update',
    operationId: 'patchCustomField',
    summary: 'Change a custom field',
    description:
      'Changes the properties of a custom field, except its name and type. Null removes a property. Values that are already stored are not checked again. Requires the grant `update` on `fields`.',
    body: 'CustomFieldPatch',
    success: 'CustomField',
    handle: async ({ organization, resource, definition, grants, actor, change, load, body }) => {
      const field = await load();
      const { options } = checked((issues) => readChange(definition, field, body(), issues));
      assertReadable(grants, { resource, options });
      await change((tx) => changeCustomField(tx, actor, organization, field.id, options));
      return toJson(await load());
    },
  },
  {
    method: 'DELETE',
    path: '/:name',
    action: 'delete',
    operationId: 'deleteCustomField',
    summary: 'Delete a custom field',
    description: `Deletes a custom field. Its values are kept for ${fieldRetentionDays} days, during which the field can be restored. Requires the grant \`delete\` on \`fields\`.`,
    success: 'Deleted',
    handle: async ({ organization, actor, change, load }) => {
      const { id } = await load();
      await change((tx) => setDeleted(tx, actor, organization, id, true));
      return { ok: true };
    },
  },
  {
    method: 'POST',
    path: '/:name/restore',
    action: 'create',
    operationId: 'restoreCustomField',
    summary: 'Restore a custom field',
    description: 'Restores a deleted custom field and its values. Requires the grant `create` on `fields`.',
    success: 'CustomField',
    handle: async ({ organization, actor, change, load }) => {
      const { id } = await load(true);
      await change((tx) => setDeleted(tx, actor, organization, id, false));
      return toJson(await load());
    },
  },
];

/** Returns the result. @throws HttpError 400 with all issues */
function checked<T>(read: (issues: FieldIssue[]) => T | undefined): T {
  const issues: FieldIssue[] = [];
  const result = read(issues);
  if (result === undefined || issues.length > 0) throw errors.invalidFields(issues);
  return result;
}

/** Returns whether the caller can read a field's group. */
const canRead = (
  grants: Grants,
  { resource, options: { group } }: Pick<CustomField, 'resource' | 'options'>,
): boolean => group === undefined || allows(grants, groupObject(resource, group), 'read');

/** Checks that the caller can read a field's group. @throws HttpError 403 */
function assertReadable(grants: Grants, field: Pick<CustomField, 'resource' | 'options'>): void {
  if (!canRead(grants, field))
    throw errors.forbidden(groupObject(field.resource, field.options.group ?? ''), 'read');
}

/** Returns a custom field in the format of the API. */
const toJson = ({ id, name, options, createdAt, deletedAt }: CustomField) => ({
  ...{ id: jsonId(id), name, ...options, created_at: createdAt.toISOString() },
  ...(deletedAt !== null && { deleted_at: deletedAt.toISOString() }),
});

/** Registers the API for custom fields. Callers need a grant on `fields`. */
export function customFieldRoutes(
  app: FastifyInstance,
  { config, database, resources }: CustomFieldServices,
): void {
  const url = `${customFieldsPath}/:resource`;
  for (const { method, path, action, isCreation, handle } of fieldOperations) {
    app.route({
      method,
      url: `${url}${path}`,
      bodyLimit,
      onRequest: authorize(app, fieldsObject, action),
      handler: async (request, reply) => {
        const { kind, actor, name, organization, grants } = request.principal as Principal;
        const parameters = request.params as { readonly resource: string; readonly name?: string };
        const definition = resources.find(({ name }) => name === parameters.resource)?.definition;
        if (definition === undefined) throw errors.recordNotFound('resource with custom fields');
        const resource = definition.name;
        const tables = tablesOf(database);
        const body = await handle({
          ...{ organization, resource, definition, grants, tables, request },
          actor: { kind, id: actor, name, requestId: request.id, audited: config.audit },
          change: async (work) => {
            await transaction(database, work);
            forgetCustomFields(database, organization);
          },
          load: async (isDeleted = false) => {
            const key = { organization, resource, name: parameters.name ?? '' };
            const field = await findCustomField(tables, key);
            if (field === undefined || (field.deletedAt !== null) !== isDeleted || !canRead(grants, field))
              throw errors.recordNotFound('custom field');
            return field;
          },
          body: () => readBody(request.headers['content-type'], request.body),
        });
        reply.header('content-type', json).header('cache-control', 'no-store');
        if (isCreation === true) {
          const { name: created } = body as { readonly name: string };
          reply.code(201).header('location', `${customFieldsPath}/${resource}/${created}`);
        }
        return JSON.stringify(body);
      },
    });
  }
  for (const [path, all] of Map.groupBy(fieldOperations, (operation) => operation.path)) {
    const methods = all.flatMap(({ method }) => (method === 'GET' ? ['GET', 'HEAD'] : [method]));
    rejectOtherMethods(app, `${url}${path}`, methods);
  }
}
