/** Returns an object's own property with an untrusted name, but never an inherited property. */
export const ownProperty = <T>(
  record: Readonly<Record<string, T>> | undefined,
  name: string,
): T | undefined => (record !== undefined && Object.hasOwn(record, name) ? record[name] : undefined);
