// Test support: numbers that look like chance, and come again with the same seed.

/** Numbers from 0 to 1 that follow from a seed. */
export function diceOf(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}
