/** Returns a function that builds something on its first call, and again after a failure. */
export function builtOnce<T>(build: () => Promise<T>): () => Promise<T> {
  let built: Promise<T> | undefined;
  return () => {
    built ??= build().catch((cause: unknown) => {
      built = undefined;
      throw cause;
    });
    return built;
  };
}
