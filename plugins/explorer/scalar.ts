import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { isMainThread, parentPort, Worker } from 'node:worker_threads';
import fastify from 'fastify';

/** Scalar's page and its script. */
export interface Rendered {
  readonly page: string;
  readonly script: Uint8Array;
}

export const documentPath = '/docs/openapi.json';
export const scriptPath = '/docs/js/scalar.js';

/** Made when the package is packed, which needs no Scalar any more then; a clone has no such folder. */
const kept = join(import.meta.dirname, 'rendered');

/** Scalar's page and script. */
export async function renderedScalar(): Promise<Rendered> {
  if (!existsSync(kept)) return renderApart();
  return {
    page: readFileSync(join(kept, 'page.html'), 'utf8'),
    script: readFileSync(join(kept, 'scalar.js')),
  };
}

/**
 * Renders Scalar's page and script in a thread of its own, which ends then: Scalar's modules hold its script several
 * times, 25 MB of memory that no process keeps this way.
 */
export function renderApart(): Promise<Rendered> {
  const { promise, resolve, reject } = Promise.withResolvers<Rendered>();
  const worker = new Worker(new URL(import.meta.url));
  worker.once('message', resolve);
  worker.once('error', reject);
  return promise;
}

async function render(): Promise<Rendered> {
  const { default: scalar } = await import('@scalar/fastify-api-reference');
  const renderer = fastify();
  await renderer.register(scalar, {
    routePrefix: '/docs',
    configuration: {
      url: documentPath,
      pageTitle: 'CRM API',
      cdn: scriptPath,
      // No requests leave the instance.
      withDefaultFonts: false,
      telemetry: false,
      showDeveloperTools: 'never',
      hideClientButton: true,
      agent: { disabled: true },
      mcp: { disabled: true },
    },
  });
  const [page, code] = [await renderer.inject('/docs/'), await renderer.inject(scriptPath)];
  await renderer.close();
  return { page: page.body, script: code.rawPayload };
}

if (!isMainThread) parentPort?.postMessage(await render());
