import type { FastifyInstance } from 'fastify';
import type { Fragment } from '../../../engine/compile/index.ts';
import type { Database } from '../../../engine/database/index.ts';
import { errors, type FieldIssue } from '../../../engine/errors.ts';
import { authorize, json, jsonId, rejectOtherMethods } from '../../../engine/http/index.ts';
import { farthestPage, pageNumber, pageSize, type Query } from '../../../engine/query/index.ts';
import { membersObject, type Principal } from '../../../engine/records/index.ts';
import { listRows, type RowSource, tablesOf } from '../../../engine/tables/index.ts';
import { type MemberInfo, memberRows } from './members.ts';

/** An organization's members in the order of the API, which does not depend on names and email addresses. */
const membersById: RowSource<MemberInfo> = { ...memberRows, order: 'u.id' };

/** Registers the route that lists an organization's members. */
export function memberRoutes(app: FastifyInstance, { database }: { readonly database: Database }): void {
  app.get('/auth/members', { onRequest: authorize(app, membersObject, 'list') }, async (request, reply) => {
    const issues: FieldIssue[] = [];
    const page = pageNumber((request.query as Query).page, issues);
    if (issues.length > 0) throw errors.invalidFields(issues);
    const { organization } = request.principal as Principal;
    const offset = (Math.min(Number(page), farthestPage) - 1) * pageSize;
    const members = await listRows(tablesOf(database), membersById, organization, {
      limit: pageSize,
      offset,
    });
    const data = members.map(({ id, name, email, profile, since }) => ({
      ...{ id: jsonId(id), name, email, profile },
      since: since.toISOString(),
    }));
    reply.header('content-type', json).header('cache-control', 'no-store');
    return `{"data":${JSON.stringify(data)},"page":${page},"per_page":${pageSize}}`;
  });
  rejectOtherMethods(app, '/auth/members', ['GET', 'HEAD']);
}

const ref = (kind: string, name: string) => ({ $ref: `#/components/${kind}/${name}` });
const text = { type: 'string' };

/** OpenAPI description of the route that lists members. */
export const membersFragment: Fragment = {
  tag: { name: 'members', description: "The organization's members." },
  paths: {
    '/auth/members': {
      get: {
        operationId: 'listMembers',
        summary: 'List members',
        description:
          "Lists the members of the caller's organization by ID. Requires the grant `list` on `members`, which `*` does not include.",
        tags: ['members'],
        parameters: [ref('parameters', 'org'), ref('parameters', 'page')],
        responses: {
          200: {
            description: 'A page of members.',
            content: { 'application/json': { schema: ref('schemas', 'MemberList') } },
          },
          400: ref('responses', 'BadRequest'),
          401: ref('responses', 'Unauthorized'),
          403: ref('responses', 'Forbidden'),
          500: ref('responses', 'Failure'),
          503: ref('responses', 'Unavailable'),
        },
      },
    },
  },
  schemas: {
    MemberList: {
      type: 'object',
      required: ['data', 'page', 'per_page'],
      properties: {
        data: { type: 'array', items: ref('schemas', 'Member') },
        page: { type: 'integer' },
        per_page: { type: 'integer', const: pageSize },
      },
    },
    Member: {
      type: 'object',
      required: ['id', 'name', 'email', 'profile', 'since'],
      properties: {
        id: { type: 'integer', format: 'int64', description: 'ID of the user.' },
        name: {
          type: ['string', 'null'],
          description: "The person's name, or null if it has not been entered.",
        },
        email: text,
        profile: { ...text, description: "Name of the member's profile." },
        since: {
          type: 'string',
          format: 'date-time',
          description: 'When the user became a member.',
        },
      },
    },
  },
  examples: {
    MemberList: {
      data: [
        {
          ...{ id: 1, name: 'Ada Lovelace', email: 'ada@example.com', profile: 'administrator' },
          since: '2026-03-01T09:30:00Z',
        },
      ],
      page: 1,
      per_page: pageSize,
    },
  },
};
