// Loads every file outside test/ like the service does: Node strips its types. Only test files are loaded by tsx, so errors
// in migrations and modules have the messages that users see. test/run.ts loads this file after tsx.
import { existsSync, readFileSync } from 'node:fs';
import { registerHooks } from 'node:module';

const tests = new URL('../', import.meta.url).href;

registerHooks({
  resolve: (specifier, context, next) => {
    const { parentURL } = context;
    // A relative path to an existing file can be resolved without a search by tsx and Node.
    if (parentURL?.startsWith('file:') && /^\.{1,2}\/.*\.ts$/.test(specifier)) {
      const url = new URL(specifier, parentURL);
      if (existsSync(url)) return { url: url.href, format: 'module-typescript', shortCircuit: true };
    }
    return next(specifier, context);
  },
  load: (url, context, next) => {
    if (url.startsWith(tests) || !url.startsWith('file:')) return next(url, context);
    const format = /\.ts(?:\?|$)/.test(url) ? 'module-typescript' : context.format;
    if (format !== 'module' && format !== 'module-typescript') return next(url, context);
    return { format, source: readFileSync(new URL(url)), shortCircuit: true };
  },
});
