import type { FastifyRequest } from 'fastify';

const loopback = /^(localhost|127(?:\.\d{1,3}){3}|\[::1\]|.+\.localhost)$/i;

/** Whether the caller speaks to this machine itself, where browsers keep cookies without TLS. */
export const isLoopback = (request: FastifyRequest): boolean => loopback.test(request.hostname);

/** Whether a browser's page of this very origin made the request (Fetch Metadata, else the Origin header). */
export function isSameOrigin({ headers, host }: FastifyRequest): boolean {
  const site = headers['sec-fetch-site'];
  if (site !== undefined) return site === 'same-origin';
  const { origin } = headers;
  return origin !== undefined && URL.canParse(origin) && new URL(origin).host === host;
}

/** Methods that change nothing. */
export const isSafe = (method: string): boolean =>
  method === 'GET' || method === 'HEAD' || method === 'OPTIONS';
