/** Returns an own property by an untrusted name, never an inherited one. */
export const ownProperty = <T>(
  record: Readonly<Record<string, T>> | undefined,
  name: string,
): T | undefined => (record !== undefined && Object.hasOwn(record, name) ? record[name] : undefined);
