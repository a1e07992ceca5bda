/** A scalar value of the settings with its path. */
export interface Leaf {
  readonly path: readonly (string | number)[];
  readonly value: string | number | boolean;
}

/** Returns the scalar values of settings or a part of them. */
export function leaves(value: unknown, path: Leaf['path'] = []): Leaf[] {
  if (typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean') {
    return [{ path, value }];
  }
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([key, child]) =>
    leaves(child, [...path, Array.isArray(value) ? Number(key) : key]),
  );
}
