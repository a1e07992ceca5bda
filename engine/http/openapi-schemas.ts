import { batchSchemas } from '../compile/index.ts';
import { errorCodes } from '../errors.ts';
import { changeSchemas } from '../records/index.ts';

/** The schemas that all resources share. */

const errorSchema = {
  type: 'object',
  description: 'What every error responds.',
  required: ['error', 'code', 'request_id'],
  properties: {
    error: { type: 'string', description: 'What is wrong, for a person. May change.' },
    fields: {
      type: 'array',
      description: 'With 400 and 409: the wrong fields or parameters, at most 100.',
      maxItems: 100,
      items: {
        type: 'object',
        required: ['field', 'message'],
        properties: { field: { type: 'string' }, message: { type: 'string' } },
      },
    },
    more: {
      type: 'integer',
      minimum: 1,
      description: 'How many wrong fields or parameters `fields` leaves out; absent if it has all.',
    },
    code: {
      type: 'string',
      // Not "enum": new codes may come, and generated clients must accept them.
      description: `What is wrong, for a program. ${Object.entries(errorCodes)
        .map(([code, meaning]) => `\`${code}\`: ${meaning}`)
        .join(' ')} Others may come: treat one that you do not know by its status.`,
      examples: Object.keys(errorCodes),
      'x-extensible-enum': Object.keys(errorCodes),
    },
    report: {
      type: 'object',
      description: 'Of an import that failed after it had written some lines: as `ImportReport`.',
    },
    existing_id: {
      type: 'integer',
      format: 'int64',
      description: 'With `duplicate`: the record that has the value, for callers who may read it.',
    },
    request_id: {
      type: 'string',
      description: 'The `X-Request-Id` of the response, as the log and the activity have it.',
    },
  },
};

const count = (description: string) => ({ type: 'integer', minimum: 0, description });
const importReport = {
  type: 'object',
  required: ['created', 'updated', 'failed', 'stopped', 'dry_run', 'ignored', 'lines', 'truncated'],
  properties: {
    created: count('New records; with `dry_run`, all that would be written.'),
    updated: count('Records that were there, with `match`.'),
    failed: count('Lines that were not written.'),
    stopped: {
      type: 'boolean',
      description:
        'With `on_error=stop`: it ended at a line that failed. Those before it are written; it and all after it are not.',
    },
    dry_run: { type: 'boolean' },
    ignored: {
      type: 'array',
      description: 'Columns of CSV that are no writable field.',
      items: { type: 'string' },
    },
    lines: {
      type: 'array',
      description: 'The first 1,000 lines that failed.',
      items: {
        type: 'object',
        required: ['line', 'error', 'code'],
        properties: {
          line: { type: 'integer', minimum: 1, description: 'Where the record begins in the body.' },
          error: { type: 'string' },
          code: { type: 'string' },
          fields: errorSchema.properties.fields,
          more: errorSchema.properties.more,
        },
      },
    },
    truncated: { type: 'boolean', description: 'Whether more lines failed than `lines` has.' },
  },
};

export const schemas = {
  Deleted: {
    type: 'object',
    description: 'It is done.',
    required: ['ok'],
    properties: { ok: { type: 'boolean', const: true } },
  },
  Error: errorSchema,
  ImportReport: importReport,
  ...batchSchemas,
  ...changeSchemas,
};
