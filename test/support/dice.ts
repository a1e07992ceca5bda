// Test support: reproducible pseudorandom numbers.

/** Returns a generator of numbers from 0 to 1 that depend only on the seed. */
export function diceOf(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}
