import type { ResourceDefinition } from '../definition/index.ts';
import type { Deprecation, JsonSchema } from '../fields/index.ts';

/**
 * Since when anything that a path serves is deprecated, and when the first of it may be gone; undefined if nothing is.
 * @param isFormer whether the path has the former name of the resource
 */
export function deprecationOf(
  { alias, fields }: ResourceDefinition,
  isFormer: boolean,
): Deprecation | undefined {
  const all = [
    ...(isFormer && alias !== undefined ? [alias] : []),
    ...fields.flatMap((field) => field.aliasOf?.alias ?? []),
  ];
  const [deprecated, sunset] = [
    all.map((each) => each.deprecated).sort()[0],
    all.map((each) => each.sunset).sort()[0],
  ];
  return deprecated === undefined || sunset === undefined ? undefined : { deprecated, sunset };
}

/** The headers of what is deprecated, as OpenAPI describes them. */
export const deprecationHeaders = {
  Deprecation: {
    description: 'Since when a name that this operation takes or returns is deprecated (RFC 9745).',
    schema: { type: 'string', examples: ['@1798761600'] },
  },
  Sunset: {
    description: 'When that name may be gone (RFC 8594).',
    schema: { type: 'string', examples: ['Fri, 01 Jan 2027 00:00:00 GMT'] },
  },
} as const satisfies Readonly<Record<string, JsonSchema>>;
