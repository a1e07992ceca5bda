import { querySchema } from '../query/index.ts';
import base from './resource.schema.json' with { type: 'json' };

/** JSON Schema of a resource file, including the keys of the query parts. */
export const resourceSchema = { ...base, properties: { ...base.properties, ...querySchema } } as const;
