import { querySchema } from '../query/index.ts';
import base from './resource.schema.json' with { type: 'json' };

/** The shape of a file: its own keys, and those of the query parts. */
export const resourceSchema = { ...base, properties: { ...base.properties, ...querySchema } } as const;
