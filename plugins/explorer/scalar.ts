import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';
import fastify from 'fastify';

/** Scalar's page and its script. */
export interface Rendered {
  readonly page: string;
  readonly script: Uint8Array;
}

/** The paths that the page names. */
export interface Paths {
  readonly document: string;
  readonly script: string;
}

/**
 * Renders Scalar's page and script in a thread of its own, which ends then: Scalar's modules hold its script several
 * times, 25 MB of memory that no process keeps this way.
 */
export function renderApart(paths: Paths): Promise<Rendered> {
  const { promise, resolve, reject } = Promise.withResolvers<Rendered>();
  const worker = new Worker(new URL(import.meta.url), { workerData: paths });
  worker.once('message', resolve);
  worker.once('error', reject);
  return promise;
}

async function render({ document, script }: Paths): Promise<Rendered> {
  const { default: scalar } = await import('@scalar/fastify-api-reference');
  const renderer = fastify();
  await renderer.register(scalar, {
    routePrefix: '/docs',
    configuration: {
      url: document,
      pageTitle: 'CRM API',
      cdn: script,
      // No requests leave the instance.
      withDefaultFonts: false,
      telemetry: false,
      showDeveloperTools: 'never',
      hideClientButton: true,
      agent: { disabled: true },
      mcp: { disabled: true },
    },
  });
  const [page, code] = [await renderer.inject('/docs/'), await renderer.inject(script)];
  await renderer.close();
  return { page: page.body, script: code.rawPayload };
}

if (!isMainThread) parentPort?.postMessage(await render(workerData as Paths));
