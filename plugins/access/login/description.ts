import type { Fragment } from '../../../engine/compile/index.ts';
import { pageSize } from '../../../engine/query/index.ts';

const ref = (kind: string, name: string) => ({ $ref: `#/components/${kind}/${name}` });
/** Describes a successful response. Without `example`, the examples in the schema apply. */
const response = (description: string, schema: object, headers?: object, example?: object) => ({
  description,
  ...(headers && { headers }),
  content: {
    'application/json': { schema, ...(example && { examples: { success: { value: example } } }) },
  },
});
const object = (properties: Readonly<Record<string, object>>) => ({
  type: 'object',
  required: Object.keys(properties),
  properties,
});

const id = { type: 'integer', format: 'int64' };
const text = { type: 'string' };
const time = { type: 'string', format: 'date-time' };
const user = {
  type: 'object',
  required: ['id', 'email'],
  properties: {
    id,
    email: text,
    name: { ...text, description: "The person's name. Absent until it is entered." },
  },
};
const organizations = { type: 'array', items: object({ id, slug: text, name: text }) };
const grants = {
  type: 'object',
  description: 'Actions by resource. `*` means every resource, including future ones.',
  additionalProperties: { type: 'array', items: text },
};
const me = {
  type: 'object',
  required: ['user', 'organizations', 'limits'],
  properties: {
    user: { anyOf: [user, { type: 'null' }] },
    organizations: {
      type: 'array',
      description: "The caller's organizations, each with the caller's profile and its grants.",
      items: object({ id, slug: text, name: text, profile: text, grants }),
    },
    key: {
      type: 'object',
      required: ['id', 'name', 'last_four', 'profile', 'expires_at'],
      properties: {
        id,
        name: text,
        last_four: text,
        profile: text,
        expires_at: { anyOf: [time, { type: 'null' }] },
        access: {
          enum: ['read-only', 'propose'],
          description:
            'What the key can do with the grants of its profile: only read, or read and propose writes with the tools of agents. Absent for other keys.',
        },
        on_behalf_of: {
          type: 'object',
          description:
            "The member on whose behalf the key acts, with the member's profile and its grants. The key can do only what both these grants and its own grants allow. Absent for other keys.",
          required: ['id', 'email', 'profile', 'grants'],
          properties: { ...user.properties, profile: text, grants },
        },
      },
    },
    grants,
    limits: object({
      per_page: { type: 'integer', description: 'Maximum number of records on a page.' },
      body_bytes: { type: 'integer', description: 'Maximum size of a request body, in bytes.' },
      rate: {
        description: 'Maximum number of requests in a window, or null if unlimited.',
        anyOf: [
          object({ requests: { type: 'integer' }, window_seconds: { type: 'integer' } }),
          { type: 'null' },
        ],
      },
    }),
  },
};
const person = { id: 1, email: 'ada@example.com', name: 'Ada Lovelace' };
const memberships = [{ id: 1, slug: 'demo', name: 'Demo' }];
const done = ref('schemas', 'Deleted');

const cookies = {
  'Set-Cookie': { description: 'The session cookie and, after a login, the device cookie.', schema: text },
};
const clearedCookie = { 'Set-Cookie': { description: 'Removes the session cookie.', schema: text } };

/** Security schemes that identify a user, which an API key does not. */
const security = [{ token: [] }, { session: [] }];
const failures = {
  401: ref('responses', 'Unauthorized'),
  500: ref('responses', 'Failure'),
  503: ref('responses', 'Unavailable'),
};
const writeFailures = {
  ...failures,
  403: ref('responses', 'CrossSite'),
  413: ref('responses', 'TooLarge'),
};
const operation = (operationId: string, summary: string, more: object) => ({
  operationId,
  summary,
  tags: ['authentication'],
  security,
  ...more,
});

/** OpenAPI description of the routes in login.ts. */
export const loginFragment: Fragment = {
  tag: {
    name: 'authentication',
    description: 'Password login for users. Programs use an organization API key instead.',
  },
  paths: {
    '/auth/login': {
      post: operation('logIn', 'Log in', {
        description:
          'Logs a user in. Returns a token and sets the session cookie. Both are valid until the session expires or is ended by logout.',
        security: [],
        requestBody: {
          required: true,
          content: {
            'application/json': {
              schema: {
                ...object({ email: text, password: { ...text, format: 'password' } }),
                properties: {
                  email: text,
                  password: { ...text, format: 'password' },
                  organization: {
                    ...text,
                    description:
                      'Slug of an organization. Selects the user if several users have the same email address and password.',
                  },
                  otp: {
                    ...text,
                    description:
                      'A code from the authenticator app, or a recovery code, if the user has a second factor. Each code can be used once.',
                  },
                },
              },
              examples: {
                request: { value: { email: 'ada@example.com', password: 'correct horse battery staple' } },
              },
            },
          },
        },
        responses: {
          200: response(
            'Logged in.',
            object({
              access_token: text,
              token_type: { ...text, const: 'Bearer' },
              expires_in: { type: 'integer', description: 'Token lifetime, in seconds.' },
              user,
              organizations,
            }),
            cookies,
            {
              access_token: 'eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl',
              token_type: 'Bearer',
              expires_in: 43200,
              user: person,
              organizations: memberships,
            },
          ),
          400: ref('responses', 'BadRequest'),
          401: ref('responses', 'LoginRefused'),
          413: ref('responses', 'TooLarge'),
          429: ref('responses', 'Throttled'),
          500: ref('responses', 'Failure'),
          503: ref('responses', 'Unavailable'),
        },
      }),
    },
    '/auth/logout': {
      post: operation('logOut', 'Log out', {
        description: 'Ends the session. Its cookie and token become invalid on every node within a second.',
        responses: { 200: response('Logged out.', done, clearedCookie), ...writeFailures },
      }),
    },
    '/auth/logout-everywhere': {
      post: operation('logOutEverywhere', 'Log out everywhere', {
        description: "Ends all of the user's sessions and invalidates their tokens.",
        responses: { 200: response('Logged out.', done, clearedCookie), ...writeFailures },
      }),
    },
    '/auth/me': {
      get: operation('getMe', 'Who is calling', {
        description:
          "Returns the caller's organizations and grants. With an API key, also returns the key, and `user` is null. A key on behalf of a member names the member in `key.on_behalf_of`.",
        security: [...security, { apiKey: [] }],
        responses: {
          200: response('The caller.', me, undefined, {
            user: person,
            organizations: memberships.map((membership) => ({
              ...membership,
              profile: 'Sales',
              grants: { '*': ['read'] },
            })),
            limits: { per_page: pageSize, body_bytes: 1_048_576, rate: null },
          }),
          ...failures,
        },
      }),
    },
    '/auth/sessions': {
      get: operation('listSessions', 'List your sessions', {
        description: "Lists the user's open sessions, newest first.",
        responses: {
          200: response(
            'The open sessions, newest first.',
            object({
              data: {
                type: 'array',
                items: object({
                  id,
                  user_agent: text,
                  method: {
                    ...text,
                    description: 'How the user logged in, for example `Password and code`.',
                  },
                  created_at: time,
                  last_seen_at: time,
                  expires_at: time,
                  current: { type: 'boolean', description: 'Whether this session sent the request.' },
                }),
              },
            }),
            undefined,
            {
              data: [
                {
                  id: 1,
                  user_agent: 'Mozilla/5.0',
                  method: 'Password',
                  created_at: '2026-03-01T09:30:00Z',
                  last_seen_at: '2026-03-01T09:45:00Z',
                  expires_at: '2026-03-01T21:30:00Z',
                  current: true,
                },
              ],
            },
          ),
          ...failures,
        },
      }),
    },
    '/auth/sessions/{id}': {
      parameters: [{ name: 'id', in: 'path', required: true, description: "The session's ID.", schema: id }],
      delete: operation('endSession', 'End one of your sessions', {
        description:
          'Ends a session on every node within a second. If it sent the request, its cookie is removed.',
        responses: {
          200: response('Ended.', done, clearedCookie),
          ...writeFailures,
          404: ref('responses', 'NotFound'),
        },
      }),
    },
  },
  security: [{ token: [] }, { session: [] }],
  securitySchemes: {
    token: {
      type: 'http',
      scheme: 'bearer',
      bearerFormat: 'JWT',
      description:
        'The `access_token` from a login. If the user has several organizations, `?org=` selects one.',
    },
    session: {
      type: 'apiKey',
      in: 'cookie',
      name: '__Host-crm_session',
      description:
        "The session cookie (`crm_session` on loopback). Writes are only accepted from the instance's own origin.",
    },
  },
  schemas: {},
};
