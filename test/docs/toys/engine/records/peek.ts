import { read } from './read.ts';

/** `GET /R/{id}/peek`: the record, with a header that no other operation has. */
export const peek: typeof read = {
  ...read,
  path: '/:id/peek',
  responseHeaders: { 'X-Peek': { description: 'Always 1.', schema: { type: 'integer', const: 1 } } },
  describe: (resource) => ({
    ...read.describe(resource),
    operationId: `peek${resource.recordName}`,
    summary: `Peek at ${resource.aRecord}`,
  }),
};
