// Preloaded into another project's test program whose fixed time limits are too short for a busy machine: timers of at
// least half a second take 20 times as long. Shorter ones are pauses between attempts.
const { setTimeout: start } = globalThis;

globalThis.setTimeout = Object.assign(
  (work, ms = 0, ...parameters) => start(work, ms < 500 ? ms : 20 * ms, ...parameters),
  start,
);
