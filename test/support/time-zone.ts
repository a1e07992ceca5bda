// Test support: the time zone of the machine on which the service runs.

/** Runs synchronous work in a time zone, as on a machine with this time zone. */
export function inTimeZone<T>(name: string, work: () => T): T {
  const previous = process.env.TZ;
  process.env.TZ = name;
  try {
    return work();
  } finally {
    if (previous === undefined) delete process.env.TZ;
    else process.env.TZ = previous;
  }
}
