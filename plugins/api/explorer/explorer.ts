import { createHash } from 'node:crypto';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { JsonSchema } from '../../../engine/fields/index.ts';
import { json, rejectOtherMethods } from '../../../engine/http/index.ts';
import { documentPath, explorerDocumentPath, renderedScalar, scriptPath } from './scalar.ts';

/** Introduction for readers who have an API key. */
const firstSteps = `**To try it, paste an API key** under *Authentication*, open a request, for example a resource's *List*, and press *Test Request*, then *Send*. The first start of an empty instance prints a key; you can create more in the [admin UI](/setup). Requests read and change the records of the key's organization.

The OpenAPI document for programs and code generators is [\`/docs/openapi.json\`](/docs/openapi.json).`;

/**
 * Adapts the OpenAPI document for the explorer. By default, Scalar sends every parameter for which it knows a
 * value, for example the first value of an enum. An empty example prevents this for optional parameters.
 */
function explorerDocument(document: JsonSchema): JsonSchema {
  const { info, components } = document as { readonly info: JsonSchema; readonly components: JsonSchema };
  const parameters = Object.entries(components.parameters as Readonly<Record<string, JsonSchema>>);
  return {
    ...document,
    info: { ...info, description: `${firstSteps}\n\n${info.description}` },
    components: {
      ...components,
      parameters: Object.fromEntries(
        parameters.map(([name, parameter]) => [
          name,
          hasValue(parameter) ? { ...parameter, example: '' } : parameter,
        ]),
      ),
    },
  };
}

/** Returns whether Scalar would send an optional parameter. */
const hasValue = ({ required, schema }: JsonSchema): boolean =>
  required !== true &&
  ['default', 'enum', 'examples'].some((key) => Object.hasOwn(schema as JsonSchema, key));

/**
 * Accessibility fixes for Scalar's page, each with a selector, an attribute and a value. A null value removes the
 * attribute. test/browser/explorer.test.ts fails if a fix is missing.
 */
const fixes: readonly (readonly [selector: string, attribute: string, value: string | null])[] = [
  ['button[class*="copy-button"]:not([aria-label])', 'aria-label', 'Copy'],
  ['button[class*="copy-button"][aria-controls]', 'aria-controls', null],
  ['button[aria-haspopup="menu"]:not([title])', 'title', 'Values'],
  ['button[role="none"]', 'role', null],
  ['[role="combobox"]:not([aria-expanded])', 'aria-expanded', 'false'],
  ['.cm-content:not([aria-label])', 'aria-label', 'Body'],
  ['.cm-scroller[tabindex="-1"]', 'tabindex', '0'],
];

/** A script that applies the fixes whenever Scalar changes the page. */
const scalarFixesScript = `
const fixes = ${JSON.stringify(fixes)};
new MutationObserver(() => {
  for (const [selector, attribute, value] of fixes)
    for (const element of document.querySelectorAll(selector))
      if (value === null) element.removeAttribute(attribute);
      else element.setAttribute(attribute, value);
}).observe(document, { childList: true, subtree: true });
`;

/** Options for the API documentation. */
export interface DocumentationOptions {
  /** Builds the OpenAPI document. */
  readonly description: () => Promise<JsonSchema>;
}

/** Serves the OpenAPI document (GET /docs/openapi.json) and the API explorer (/docs), both without authentication. */
export async function documentation(
  app: FastifyInstance,
  { description }: DocumentationOptions,
): Promise<void> {
  /** Serves a document. It is built on the first request, because many processes never receive one. */
  const serve = (path: string, build: () => Promise<JsonSchema>) => {
    let document: Promise<SharedFile> | undefined;
    app.get(path, async (request, reply) => {
      document ??= build().then((content) => sharedFile(app, Buffer.from(JSON.stringify(content))));
      reply.header('content-type', json).header('cache-control', 'no-cache');
      return (await document)(request, reply);
    });
  };
  serve(documentPath, description);
  serve(explorerDocumentPath, async () => explorerDocument(await description()));

  let rendered: ReturnType<typeof renderExplorer> | undefined;
  // Rendered on the first request, and re-rendered after a failure.
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
    const { script } = await explorer();
    reply.header('content-type', 'text/javascript; charset=utf-8');
    reply.header('cache-control', 'public, max-age=86400');
    return script(request, reply);
  });

  for (const url of [documentPath, explorerDocumentPath, '/docs', '/docs/', scriptPath])
    rejectOtherMethods(app, url, ['GET', 'HEAD']);
}

/** Responds to a request with a file. */
type SharedFile = (request: FastifyRequest, reply: FastifyReply) => unknown;

/** Returns a function that sends bytes with an entity tag, or 304 if the client already has them. */
function sharedFile(app: FastifyInstance, bytes: Buffer): SharedFile {
  const body = app.sharedBody(bytes);
  const tag = `"${createHash('sha256').update(bytes).digest('base64url')}"`;
  return (request, reply) => {
    // The tag is weak, because compressed bodies differ.
    reply.header('etag', `W/${tag}`);
    const ifNoneMatch = request.headers['if-none-match'];
    if (ifNoneMatch === undefined || !(ifNoneMatch.trim() === '*' || ifNoneMatch.includes(tag)))
      return body(request, reply);
    return reply.header('vary', 'accept-encoding').code(304).send();
  };
}

/** Prevents the browser from requesting an icon, and disables Zod's use of `eval`, which the page's policy forbids. */
const beforeScalar = `<link rel="icon" href="data:,"><script>
globalThis.__zod_globalConfig = { jitless: true };${scalarFixesScript}</script>`;

/** Prepares Scalar's page with its policy and script, which are the same for every request. */
async function renderExplorer(app: FastifyInstance) {
  const rendered = await renderedScalar();
  const page = rendered.page.replace('<html>', '<html lang="en">').replace('<head>', `<head>${beforeScalar}`);
  const { buffer, byteOffset, byteLength } = rendered.script;
  const script = Buffer.from(buffer, byteOffset, byteLength);
  return {
    page: Buffer.from(page),
    policy: contentSecurityPolicy(page),
    script: sharedFile(app, script),
  };
}

/** Returns a policy that allows scripts from this instance, and the page's inline script by its hash. */
function contentSecurityPolicy(page: string): string {
  const inline = [...page.matchAll(/<script(?![^>]*\bsrc=)[^>]*>([\s\S]*?)<\/script>/g)].map(
    ([, source = '']) => `'sha256-${createHash('sha256').update(source).digest('base64')}'`,
  );
  return [
    "default-src 'none'",
    `script-src 'self' ${inline.join(' ')}`,
    // Scalar sets styles at run time.
    "style-src 'self' 'unsafe-inline'",
    "img-src 'self' data: blob:",
    "font-src 'self' data:",
    "connect-src 'self'",
    "form-action 'self'",
    "frame-ancestors 'none'",
    "base-uri 'none'",
  ].join('; ');
}
