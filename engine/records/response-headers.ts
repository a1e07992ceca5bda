// Response headers that several operations share, for the OpenAPI document and CORS.

/** Path of a created record. */
export const locationHeader = {
  Location: { description: 'Path of the new record.', schema: { type: 'string' } },
};

/** Marks a stored response to a request with `Idempotency-Key`. */
export const replayedHeader = {
  'Idempotency-Replayed': {
    description: '`true` if the `Idempotency-Key` was used before and this is the stored response.',
    schema: { type: 'string', const: 'true' },
  },
};

/** Entity tag of a record. */
export const etagHeader = {
  ETag: {
    description: 'Entity tag of this version of the record, for `If-Match` and `If-None-Match`.',
    schema: { type: 'string' },
  },
};
