import { createHash } from 'node:crypto';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { documentWithCustomFields, type Resource } from '../../../engine/compile/index.ts';
import type { Database } from '../../../engine/database/index.ts';
import { hasCustomFields, type JsonSchema } from '../../../engine/fields/index.ts';
import { apiPrefix, json, rejectOtherMethods } from '../../../engine/http/index.ts';
import type { Query } from '../../../engine/query/index.ts';
import { organizationCustomFields, visibleCustomFields } from '../../../engine/records/index.ts';
import { asyncApiDocument } from './async-api.ts';
import { builtOnce } from './built-once.ts';
import type { OpenApiDocument } from './document.ts';
import { llmsText } from './llms-text.ts';
import { type Diagram, explorerPages } from './pages.ts';
import { limitedFields, transitionDiagram, transitionSentences } from './transition-diagram.ts';

const documentPath = '/docs/openapi.json';

/** Other files that are generated from the OpenAPI document, keyed by path. */
const derivedFiles: Readonly<
  Record<string, { readonly type: string; readonly text: (document: OpenApiDocument) => string }>
> = {
  '/docs/asyncapi.json': { type: json, text: (document) => JSON.stringify(asyncApiDocument(document)) },
  '/llms.txt': { type: 'text/plain; charset=utf-8', text: llmsText },
};

const diagramsOf = (resources: readonly Resource[]): readonly (Diagram & { readonly svg: string })[] =>
  resources.flatMap(({ name, definition }) =>
    limitedFields(definition.fields).map((field) => ({
      resource: name,
      field: field.name,
      path: `/docs/transitions/${name}.${field.name}.svg`,
      sentences: transitionSentences(field),
      svg: transitionDiagram(field),
    })),
  );

/**
 * Returns the document of the organization in a request's `org` parameter, which requires authentication. Undefined if the
 * request is for the document of all organizations.
 */
type OwnDocument = (request: FastifyRequest) => Promise<JsonSchema | undefined>;

/** Options for the API documentation. */
export interface DocumentationOptions {
  /** Builds the OpenAPI document. */
  readonly description: () => Promise<JsonSchema>;
  readonly database: Database;
  /** The resources whose transitions are shown as diagrams, and whose custom fields are described. */
  readonly resources: readonly Resource[];
}

/** Serves the OpenAPI document (GET /docs/openapi.json), the files derived from it and the API explorer (/docs), all without authentication, except the document of one organization. */
export async function documentation(
  app: FastifyInstance,
  { description, resources, database }: DocumentationOptions,
): Promise<void> {
  const definitions = resources.map(({ definition }) => definition);
  const isCustom = definitions.some(hasCustomFields);
  const ownDocument: OwnDocument = async (request) => {
    if (!isCustom || (request.query as Query).org === undefined) return undefined;
    const principal = await app.authenticate(request);
    const { grants, organization } = principal;
    const customFields = await organizationCustomFields(database, resources, organization);
    const visible = resources.map(({ name, viewFor }) => {
      const fields = customFields?.get(name) ?? [];
      return [name, visibleCustomFields(fields, viewFor(grants).definition, grants)] as const;
    });
    return documentWithCustomFields(await description(), definitions, apiPrefix, new Map(visible));
  };
  // The document is built on the first request, because many processes never receive one.
  const document = builtOnce(async () => sharedFile(app, Buffer.from(JSON.stringify(await description()))));
  app.get(documentPath, async (request, reply) => {
    const own = await ownDocument(request);
    if (own !== undefined) {
      reply.header('content-type', json).header('cache-control', 'no-store');
      return JSON.stringify(own);
    }
    reply.header('content-type', json).header('cache-control', 'no-cache');
    return (await document())(request, reply);
  });
  for (const [path, { type, text }] of Object.entries(derivedFiles)) {
    const file = builtOnce(async () =>
      sharedFile(app, Buffer.from(text((await description()) as OpenApiDocument))),
    );
    app.get(path, async (request, reply) => {
      reply.header('content-type', type).header('cache-control', 'no-cache');
      return (await file())(request, reply);
    });
  }
  const diagrams = diagramsOf(resources);
  for (const { path, svg } of diagrams) {
    app.get(path, async (_request, reply) => {
      reply.header('content-type', 'image/svg+xml; charset=utf-8').header('cache-control', 'no-cache');
      return svg;
    });
  }
  for (const url of [documentPath, ...Object.keys(derivedFiles), ...diagrams.map(({ path }) => path)])
    rejectOtherMethods(app, url, ['GET', 'HEAD']);
  await app.register(explorerPages, {
    prefix: '/docs',
    document: async () => (await description()) as OpenApiDocument,
    resources: resources.map(({ name }) => name),
    diagrams,
  });
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
