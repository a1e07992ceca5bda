import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { basename, extname, join } from 'node:path';
import type { FastifyInstance } from 'fastify';
import { errors } from '../../../engine/errors.ts';

/** Content types of assets, by extension. */
const types: Readonly<Record<string, string>> = {
  '.css': 'text/css; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.woff2': 'font/woff2',
};

/** Files that pages load. */
interface Assets {
  /** Returns an asset's URL, which contains the hash of all assets, so browsers can cache it without revalidation. */
  readonly url: (name: string) => string;
  /** Adds the assets' route. */
  readonly serve: (app: FastifyInstance) => void;
}

/**
 * Reads assets.
 * @param prefix prefix of the assets' URLs
 * @param paths paths of the files
 */
export function readAssets(prefix: string, paths: readonly string[]): Assets {
  const contents = new Map(paths.map((path) => [basename(path), readFileSync(path)]));
  const version = [...contents.values()]
    .reduce((hash, content) => hash.update(content), createHash('sha256'))
    .digest('base64url')
    .slice(0, 12);
  return {
    url: (name) => `${prefix}/assets/${version}/${name}`,
    serve: (app) => {
      const bodies = new Map(
        [...contents].map(([name, content]) => [
          name,
          name.endsWith('.woff2') ? () => content : app.sharedBody(content),
        ]),
      );
      app.get('/assets/:version/:name', async (request, reply) => {
        const params = request.params as { readonly version: string; readonly name: string };
        const body = bodies.get(params.name);
        const type = types[extname(params.name)];
        if (body === undefined || type === undefined) throw errors.notFound();
        // During an update, a page from an older node can load its assets from a newer one.
        const isCurrent = params.version === version;
        reply.header('content-type', type);
        reply.header(
          'cache-control',
          isCurrent ? 'public, max-age=31536000, immutable' : 'public, max-age=60',
        );
        return reply.send(await body(request, reply));
      });
    },
  };
}

/** Path of the library that replaces pages without reloading them. */
const turbo = createRequire(import.meta.url).resolve('@hotwired/turbo/dist/turbo.es2017-esm.js');

/** Hash of the style for the progress bar, which the library inserts. */
export const turboStyleHash = "'sha256-WAyOw4V+FqDc35lQPyRADLBWbuNK8ahvYEaQIYF1+Ps='";

const adminAssets = readAssets('/setup', [
  ...['setup.css', 'setup.js', 'turbo.js', 'icons.svg', 'inter-latin.woff2', 'inter-latin-ext.woff2'].map(
    (name) => join(import.meta.dirname, 'assets', name),
  ),
  turbo,
]);

/** Returns the URL of one of the admin UI's assets. */
export const assetUrl = adminAssets.url;

/** Serves the stylesheet, the scripts, the icons and the fonts. */
export const serveAssets = adminAssets.serve;
