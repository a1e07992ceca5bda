import { createHash } from 'node:crypto';
import type { FastifyInstance, FastifyReply } from 'fastify';
import type { Fragment } from '../../engine/compile/index.ts';
import { json, openApiDocument, refuseOtherMethods } from '../../engine/http/index.ts';
import { documentPath, renderedScalar, scriptPath } from './scalar.ts';

/** The described API. */
export interface DocumentationOptions {
  readonly fragments: readonly Fragment[];
  /** The version of this package, and of the API. */
  readonly version: string;
}

/** The API's description (GET /docs/openapi.json) and an explorer of it (/docs). Neither needs authentication. */
export async function documentation(
  app: FastifyInstance,
  { fragments, version }: DocumentationOptions,
): Promise<void> {
  // Buffers, so that all readers share one.
  const document = app.sharedBody(Buffer.from(JSON.stringify(openApiDocument(fragments, version))));
  app.get(documentPath, async (request, reply) => {
    reply.header('content-type', json).header('cache-control', 'no-cache');
    return document(request, reply);
  });

  let rendered: ReturnType<typeof renderExplorer> | undefined;
  // Rendered when it is first asked for; what failed is tried again.
  const explorer = () => {
    rendered ??= renderExplorer(app).catch((cause) => {
      rendered = undefined;
      throw cause;
    });
    return rendered;
  };
  const sendPage = async (_request: unknown, reply: FastifyReply) => {
    const { page, policy } = await explorer();
    reply.header('content-type', 'text/html; charset=utf-8').header('cache-control', 'no-store');
    reply.header('content-security-policy', policy).header('referrer-policy', 'no-referrer');
    reply.header('cross-origin-opener-policy', 'same-origin');
    return page;
  };
  app.get('/docs', sendPage);
  app.get('/docs/', sendPage);

  app.get(scriptPath, async (request, reply) => {
    const { script, etag } = await explorer();
    reply.header('content-type', 'text/javascript; charset=utf-8');
    reply.header('cache-control', 'public, max-age=86400').header('etag', etag);
    if (request.headers['if-none-match'] === etag)
      return reply.header('vary', 'accept-encoding').code(304).send();
    return script(request, reply);
  });

  for (const url of [documentPath, '/docs', '/docs/', scriptPath])
    refuseOtherMethods(app, url, ['GET', 'HEAD']);
}

/** Requests no icon, and keeps Zod within Scalar from `eval`, which the page's policy forbids. */
const beforeScalar =
  '<link rel="icon" href="data:,"><script>globalThis.__zod_globalConfig = { jitless: true }</script>';

/** Scalar's page and script as they are sent: they are the same for every request. */
async function renderExplorer(app: FastifyInstance) {
  const rendered = await renderedScalar();
  const page = rendered.page.replace('<head>', `<head>${beforeScalar}`);
  const { buffer, byteOffset, byteLength } = rendered.script;
  const script = Buffer.from(buffer, byteOffset, byteLength);
  return {
    page: Buffer.from(page),
    policy: contentSecurityPolicy(page),
    script: app.sharedBody(script),
    etag: `"${createHash('sha256').update(script).digest('base64url')}"`,
  };
}

/** Allows scripts from this instance and the page's inline script, by its hash; no other origin. */
function contentSecurityPolicy(page: string): string {
  const inline = [...page.matchAll(/<script(?![^>]*\bsrc=)[^>]*>([\s\S]*?)<\/script>/g)].map(
    ([, source = '']) => `'sha256-${createHash('sha256').update(source).digest('base64')}'`,
  );
  return [
    "default-src 'none'",
    `script-src 'self' ${inline.join(' ')}`,
    // Scalar styles its elements at run time.
    "style-src 'self' 'unsafe-inline'",
    "img-src 'self' data: blob:",
    "font-src 'self' data:",
    "connect-src 'self'",
    "form-action 'self'",
    "frame-ancestors 'none'",
    "base-uri 'none'",
  ].join('; ');
}
