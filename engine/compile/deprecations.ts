import type { ResourceDefinition } from '../definition/index.ts';
import type { Deprecation, JsonSchema } from '../fields/index.ts';

/**
 * Returns the date of the oldest deprecation on a path and the earliest date when a deprecated name can be removed, or
 * undefined if nothing is deprecated.
 * @param isFormer whether the path contains the resource's former name
 */
export function deprecationOf(
  { alias, fields }: ResourceDefinition,
  isFormer: boolean,
): Deprecation | undefined {
  const deprecations = [
    ...(isFormer && alias !== undefined ? [alias] : []),
    ...fields.flatMap((field) => field.aliasOf?.alias ?? []),
  ];
  const [deprecated, sunset] = [
    deprecations.map((deprecation) => deprecation.deprecated).sort()[0],
    deprecations.map((deprecation) => deprecation.sunset).sort()[0],
  ];
  return deprecated === undefined || sunset === undefined ? undefined : { deprecated, sunset };
}

/** OpenAPI description of the deprecation headers. */
export const deprecationHeaders = {
  Deprecation: {
    description: 'Date on which a name that this operation accepts or returns was deprecated (RFC 9745).',
    schema: { type: 'string', examples: ['@1798761600'] },
  },
  Sunset: {
    description: 'Date after which the deprecated name may be removed (RFC 8594).',
    schema: { type: 'string', examples: ['Fri, 01 Jan 2027 00:00:00 GMT'] },
  },
} as const satisfies Readonly<Record<string, JsonSchema>>;
