import type { Fragment } from '../../engine/compile/index.ts';
import { changeSchema } from '../../engine/records/index.ts';
import { maxWait } from './request.ts';

const ref = (kind: string, name: string) => ({ $ref: `#/components/${kind}/${name}` });
const text = { type: 'string' };
const parameter = (name: string, description: string, schema: object) => ({
  name,
  in: 'query',
  description,
  schema,
});

/** The OpenAPI description of the feed. */
export const feedFragment: Fragment = {
  tag: { name: 'events', description: 'What changed in the records of the organization.' },
  paths: {
    '/events': {
      get: {
        operationId: 'listEvents',
        summary: 'List changes',
        description: `Changes of records in order, deletions included, each once: after a cursor, up to 500 with their \`next\`. Needs the grant list on each resource. With \`Accept: text/event-stream\` the same as a stream: the id of each event is a cursor. A change whose \`version\` is lower than that of one seen before of the same record is older, and to be ignored.`,
        tags: ['events'],
        parameters: [
          ref('parameters', 'org'),
          ref('parameters', 'events.after'),
          ref('parameters', 'events.resources'),
          ref('parameters', 'events.wait'),
        ],
        responses: {
          200: {
            description: 'Changes, perhaps none, and where to continue.',
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
      'The `next` of the response before. Absent: from the first change that is kept. `now`: no change, only where the feed ends.',
      text,
    ),
    'events.resources': parameter(
      'resources',
      'Names of resources, with a comma between; all that the caller may list by default.',
      text,
    ),
    'events.wait': parameter('wait', 'Seconds to wait for a change if there is none.', {
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
        next: { ...text, description: 'Where to continue: `after` of the next request.' },
      },
    },
    EventStream: { ...text, description: 'Server-sent events; the data of each is a `Change`.' },
  },
  examples: {
    Events: { data: [], next: 'WyJhIiwiMSIsIjAiLDFd.c2lnbmVk' },
    EventStream: ': heartbeat\nid: WyJhIiwiMSIsIjAiLDFd.c2lnbmVk\n\n',
  },
};
