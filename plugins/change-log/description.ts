import type { Fragment } from '../../engine/compile/index.ts';
import { changeSchema } from '../../engine/records/index.ts';
import { maxChanges } from './feed.ts';
import { maxWait } from './request.ts';

const ref = (kind: string, name: string) => ({ $ref: `#/components/${kind}/${name}` });
const text = { type: 'string' };
const parameter = (name: string, description: string, schema: object) => ({
  name,
  in: 'query',
  description,
  schema,
});

/** OpenAPI description of the feed. */
export const feedFragment: Fragment = {
  tag: { name: 'events', description: "Changes to the organization's records." },
  paths: {
    '/events': {
      get: {
        operationId: 'listEvents',
        summary: 'List changes',
        description: `Lists changes to records, including deletions, in order and each exactly once. Returns up to ${maxChanges} changes after a cursor, and the \`next\` cursor. With \`Accept: text/event-stream\`, streams the changes as server-sent events whose IDs are cursors. Ignore a change if you have already received one with a higher \`version\` for the same record. Requires the grant \`list\` on each resource.`,
        tags: ['events'],
        parameters: [
          ref('parameters', 'org'),
          ref('parameters', 'events.after'),
          ref('parameters', 'events.resources'),
          ref('parameters', 'events.wait'),
        ],
        responses: {
          200: {
            description: 'The changes, if any, and the cursor of the next page.',
            content: {
              'application/json': { schema: ref('schemas', 'Events') },
              'text/event-stream': { schema: ref('schemas', 'EventStream') },
            },
          },
          400: ref('responses', 'BadRequest'),
          401: ref('responses', 'Unauthorized'),
          403: ref('responses', 'Forbidden'),
          410: ref('responses', 'CursorExpired'),
          500: ref('responses', 'Failure'),
          501: ref('responses', 'NotRecorded'),
          503: ref('responses', 'Unavailable'),
        },
      },
    },
  },
  parameters: {
    'events.after': parameter(
      'after',
      'The `next` cursor of the previous response. If absent, starts with the oldest stored change. `now` returns no changes, only the cursor for the end of the feed.',
      text,
    ),
    'events.resources': parameter(
      'resources',
      'Comma-separated resource names. Default: all resources that the caller can list.',
      text,
    ),
    'events.wait': parameter('wait', 'Seconds to wait for a change if there are no changes yet.', {
      type: 'integer',
      minimum: 0,
      maximum: maxWait,
      default: 0,
    }),
  },
  schemas: {
    Events: {
      type: 'object',
      required: ['data', 'next'],
      properties: {
        data: { type: 'array', items: ref('schemas', changeSchema) },
        next: { ...text, description: 'The cursor to pass as `after` in the next request.' },
      },
    },
    EventStream: { ...text, description: "Server-sent events. Each event's data is a `Change`." },
  },
  examples: {
    Events: { data: [], next: 'WyJhIiwiMSIsIjAiLDFd.c2lnbmVk' },
    EventStream: ': heartbeat\nid: WyJhIiwiMSIsIjAiLDFd.c2lnbmVk\n\n',
  },
};
