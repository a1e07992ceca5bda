/** The error thrown if a result does not arrive in time. */
export class TimeoutError extends Error {}

/**
 * Waits for a result for a limited time. The work is not cancelled.
 * @param message returns the error message
 * @throws TimeoutError if the result does not arrive in time
 */
export async function withTimeout<T>(
  ms: number,
  work: Promise<T>,
  message = (timeoutMs: number) => `no response within ${timeoutMs} ms`,
): Promise<T> {
  const { promise, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => reject(new TimeoutError(message(ms))), ms);
  try {
    return await Promise.race([work, promise]);
  } finally {
    clearTimeout(timer);
    work.catch(() => {});
  }
}
