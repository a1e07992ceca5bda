import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { isMainThread, parentPort, Worker } from 'node:worker_threads';

/** Scalar's page and script. */
interface RenderedExplorer {
  readonly page: string;
  readonly script: Uint8Array;
}

export const documentPath = '/docs/openapi.json';
/** The OpenAPI document with additions for the explorer. */
export const explorerDocumentPath = '/docs/explorer.json';
export const scriptPath = '/docs/js/scalar.js';

/**
 * Folder that contains Scalar's page and script, rendered when the package is built. Absent in a repository
 * clone.
 */
const renderedFolder = join(import.meta.dirname, 'rendered');

/** Returns Scalar's page and script. */
export async function renderedScalar(): Promise<RenderedExplorer> {
  if (!existsSync(renderedFolder)) return renderInWorker();
  return {
    page: readFileSync(join(renderedFolder, 'page.html'), 'utf8'),
    script: readFileSync(join(renderedFolder, 'scalar.js')),
  };
}

/**
 * Renders Scalar's page and script in a temporary worker thread, because Scalar's modules would occupy 25 MB of memory.
 */
export function renderInWorker(): Promise<RenderedExplorer> {
  const { promise, resolve, reject } = Promise.withResolvers<RenderedExplorer>();
  const worker = new Worker(new URL(import.meta.url));
  worker.once('message', resolve);
  worker.once('error', reject);
  return promise;
}

/**
 * Increases the contrast of Scalar's small text. On narrow screens, moves a button that covers the request
 * URL, and shows the response above the parameters.
 */
const styles = `
.light-mode {
  --scalar-color-2: #4f4f4f; --scalar-color-3: #5f5f5f;
  --scalar-color-green: #00663f; --scalar-color-blue: #005c99; --scalar-color-red: #b30000; --scalar-color-orange: #9a3a00; --scalar-color-yellow: #7a5b00;
}
.dark-mode {
  --scalar-color-2: #b4b4b4; --scalar-color-3: #a4a4a4; --scalar-color-red: #ff6b6b;
}
@media (max-width: 1279px) {
  [role=dialog] .scalar-sidebar-toggle { display: none; }
  section[aria-label="Response"]:has(.response-section-content-body) { order: -1; }
}
`;

async function render(): Promise<RenderedExplorer> {
  const [{ default: fastify }, { default: scalar }] = await Promise.all([
    import('fastify'),
    import('@scalar/fastify-api-reference'),
  ]);
  const renderer = fastify();
  await renderer.register(scalar, {
    routePrefix: '/docs',
    configuration: {
      url: explorerDocumentPath,
      // A download would contain the explorer's additions. The page links to the original document instead.
      documentDownloadType: 'none',
      pageTitle: 'CRM API',
      cdn: scriptPath,
      // Prevents requests to other hosts.
      withDefaultFonts: false,
      telemetry: false,
      showDeveloperTools: 'never',
      hideClientButton: true,
      agent: { disabled: true },
      mcp: { disabled: true },
      authentication: { preferredSecurityScheme: 'apiKey' },
      customCss: styles,
    },
  });
  const [page, code] = [await renderer.inject('/docs/'), await renderer.inject(scriptPath)];
  await renderer.close();
  return { page: page.body, script: code.rawPayload };
}

if (!isMainThread) parentPort?.postMessage(await render());
