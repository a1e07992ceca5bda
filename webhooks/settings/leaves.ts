/** A single value of the settings, and where it stands. */
export interface Leaf {
  readonly path: readonly (string | number)[];
  readonly value: string | number | boolean;
}

/** The single values of settings, or of a part of them. */
export function leaves(value: unknown, path: Leaf['path'] = []): Leaf[] {
  if (typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean') {
    return [{ path, value }];
  }
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([key, each]) =>
    leaves(each, [...path, Array.isArray(value) ? Number(key) : key]),
  );
}
