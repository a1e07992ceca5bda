// Makes test processes cheaper: node:test follows every promise in order to assign uncaught errors to tests, and hooks for
// promises slow down all asynchronous code. Without them, `test` and hooks still find their suites, and an uncaught error
// still fails the file. test/run.ts loads this module before a test file.
import { createRequire } from 'node:module';
import { isMainThread } from 'node:worker_threads';

interface AsyncHooks {
  createHook: (callbacks: object) => object;
}

if (isMainThread) {
  const hooks = createRequire(import.meta.url)('node:async_hooks') as AsyncHooks;
  const { createHook } = hooks;
  // node:test keeps the function when it is loaded.
  hooks.createHook = (callbacks) => createHook({ ...callbacks, trackPromises: false });
  await import('node:test');
  hooks.createHook = createHook;
}
