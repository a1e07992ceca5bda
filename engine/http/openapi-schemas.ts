import { batchSchemas } from '../compile/index.ts';
import { errorCodes } from '../errors.ts';
import { changeSchemas } from '../records/index.ts';

/** Schemas shared by all resources. */

const ref = (name: string) => ({ $ref: `#/components/schemas/${name}` });

/**
 * Error schemas. Shared parts are separate schemas, because generators do not resolve references into other
 * schemas.
 */
const errorSchemas = {
  ErrorMessage: { type: 'string', description: 'A message for people. The text can change.' },
  ErrorCode: {
    type: 'string',
    // An `enum` would make generated clients reject codes that are added later.
    description: `A stable identifier for programs. ${Object.entries(errorCodes)
      .map(([code, meaning]) => `\`${code}\`: ${meaning}`)
      .join(' ')} New codes can be added: handle an unknown code by its status.`,
    examples: Object.keys(errorCodes),
    'x-extensible-enum': Object.keys(errorCodes),
  },
  FieldErrors: {
    type: 'array',
    description: 'The invalid fields or parameters, with 400 and 409; at most 100.',
    maxItems: 100,
    items: ref('FieldError'),
  },
  FieldError: {
    type: 'object',
    description: 'An error in a field or parameter.',
    required: ['field', 'message'],
    properties: { field: { type: 'string' }, message: { type: 'string' } },
  },
  OmittedFields: {
    type: 'integer',
    minimum: 1,
    description:
      'Number of invalid fields or parameters that `fields` omits; absent if it lists all of them.',
  },
  ExistingId: {
    type: 'integer',
    format: 'int64',
    description:
      'The ID of the record that has the value, with `duplicate`, if the caller is allowed to read it.',
  },
  RejectedConstraint: {
    type: 'string',
    description:
      'The constraint, or the function of the trigger, that rejected the write, with `rejected_by_database`.',
  },
  Error: {
    type: 'object',
    description: 'The body of every error response.',
    required: ['error', 'code', 'request_id'],
    properties: {
      error: ref('ErrorMessage'),
      fields: ref('FieldErrors'),
      more: ref('OmittedFields'),
      code: ref('ErrorCode'),
      report: {
        type: 'object',
        description: 'The `ImportReport` of an import that failed after writing some of its lines.',
      },
      existing_id: ref('ExistingId'),
      constraint: ref('RejectedConstraint'),
      request_id: {
        type: 'string',
        description: "The response's `X-Request-Id`, which also appears in the log and the activity.",
      },
    },
  },
};

const count = (description: string) => ({ type: 'integer', minimum: 0, description });
const importReport = {
  type: 'object',
  required: ['created', 'updated', 'failed', 'stopped', 'dry_run', 'ignored', 'lines', 'truncated'],
  properties: {
    created: count('Number of created records, or with `dry_run`, of records that would be created.'),
    updated: count('Number of existing records updated because of `match`.'),
    failed: count('Number of lines that were not written.'),
    stopped: {
      type: 'boolean',
      description:
        'Whether the import stopped at a failed line, with `on_error=stop`. Earlier lines were written; the failed line and later lines were not.',
    },
    dry_run: { type: 'boolean' },
    ignored: {
      type: 'array',
      description: 'CSV columns that are not writable fields.',
      items: { type: 'string' },
    },
    lines: {
      type: 'array',
      description: 'The first 1,000 lines that failed.',
      items: {
        type: 'object',
        required: ['line', 'error', 'code'],
        properties: {
          line: {
            type: 'integer',
            minimum: 1,
            description: 'The line of the body on which the record starts.',
          },
          error: { type: 'string' },
          code: { type: 'string' },
          fields: ref('FieldErrors'),
          more: ref('OmittedFields'),
          constraint: ref('RejectedConstraint'),
        },
      },
    },
    truncated: { type: 'boolean', description: 'Whether more lines failed than `lines` contains.' },
  },
};

export const schemas = {
  Deleted: {
    type: 'object',
    description: 'The request succeeded.',
    required: ['ok'],
    properties: { ok: { type: 'boolean', const: true } },
  },
  ...errorSchemas,
  ImportReport: importReport,
  ...batchSchemas,
  ...changeSchemas,
};
