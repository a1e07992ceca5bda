import { createHash } from 'node:crypto';
import fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify';
import type { Schema } from '../../engine/fields/index.ts';
import { json, refuseOtherMethods } from '../../engine/http/index.ts';

const documentPath = '/docs/openapi.json';
const scriptPath = '/docs/js/scalar.js';

/** The described API. */
export interface DocumentationOptions {
  /** Makes the OpenAPI document. */
  readonly description: () => Promise<Schema>;
}

/** The API's description (GET /docs/openapi.json) and an explorer of it (/docs). Neither needs authentication. */
export async function documentation(
  app: FastifyInstance,
  { description }: DocumentationOptions,
): Promise<void> {
  // Made when it is first asked for, which many processes never are.
  let document: Promise<SharedFile> | undefined;
  app.get(documentPath, async (request, reply) => {
    document ??= description().then((made) => sharedFile(app, JSON.stringify(made)));
    reply.header('content-type', json).header('cache-control', 'no-cache');
    return (await document)(request, reply);
  });

  const { page, script } = await renderExplorer();
  const policy = contentSecurityPolicy(page);
  const pageBytes = Buffer.from(page);
  const sendPage = async (_request: unknown, reply: FastifyReply) => {
    reply.header('content-type', 'text/html; charset=utf-8').header('cache-control', 'no-store');
    reply.header('content-security-policy', policy).header('referrer-policy', 'no-referrer');
    reply.header('cross-origin-opener-policy', 'same-origin');
    return pageBytes;
  };
  app.get('/docs', sendPage);
  app.get('/docs/', sendPage);

  const scriptFile = sharedFile(app, script);
  app.get(scriptPath, async (request, reply) => {
    reply.header('content-type', 'text/javascript; charset=utf-8');
    reply.header('cache-control', 'public, max-age=86400');
    return scriptFile(request, reply);
  });

  for (const url of [documentPath, '/docs', '/docs/', scriptPath])
    refuseOtherMethods(app, url, ['GET', 'HEAD']);
}

type SharedFile = (request: FastifyRequest, reply: FastifyReply) => unknown;

/** A text that all readers share, with an entity tag: 304 for those who have it. */
function sharedFile(app: FastifyInstance, text: string): SharedFile {
  const body = app.sharedBody(Buffer.from(text));
  const tag = `"${createHash('sha256').update(text).digest('base64url')}"`;
  return (request, reply) => {
    // Weak: a compressed body has other bytes.
    reply.header('etag', `W/${tag}`);
    const known = request.headers['if-none-match'];
    if (known === undefined || !(known.trim() === '*' || known.includes(tag))) return body(request, reply);
    return reply.header('vary', 'accept-encoding').code(304).send();
  };
}

/** Requests no icon, and keeps Zod within Scalar from `eval`, which the page's policy forbids. */
const beforeScalar =
  '<link rel="icon" href="data:,"><script>globalThis.__zod_globalConfig = { jitless: true }</script>';

/** Scalar's page and script, rendered once: they are the same for every request. */
async function renderExplorer(): Promise<{ page: string; script: string }> {
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
  const page = (await renderer.inject('/docs/')).body.replace('<head>', `<head>${beforeScalar}`);
  const script = (await renderer.inject(scriptPath)).body;
  await renderer.close();
  return { page, script };
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
