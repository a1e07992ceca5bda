// A validating proxy in front of an instance: Prism compares every request and response with the OpenAPI document.
import { createLogger } from '@stoplight/prism-core';
import { getHttpOperationsFromSpec } from '@stoplight/prism-http';
import { createServer } from '@stoplight/prism-http-server';

/** A running proxy. */
export interface ValidatingProxy {
  /** Origin without a trailing slash. */
  readonly url: string;
  readonly close: () => Promise<void>;
}

/**
 * Starts a proxy on a loopback port. The response header `sl-violations` lists the differences from the document.
 * @param document the OpenAPI document
 * @param upstream origin of the instance
 */
export async function startProxy(document: object, upstream: string): Promise<ValidatingProxy> {
  // Prism changes the document.
  const operations = await getHttpOperationsFromSpec(structuredClone(document));
  const server = createServer(operations, {
    cors: false,
    config: {
      isProxy: true,
      upstream: new URL(upstream),
      validateRequest: true,
      validateResponse: true,
      checkSecurity: true,
      errors: false,
      mock: false,
      upstreamProxy: undefined,
    },
    components: { logger: createLogger('prism', { level: 'silent' }) },
  });
  const url = await server.listen(0, '127.0.0.1');
  return { url, close: () => server.close() };
}
