import type { FastifyRequest } from 'fastify';
import { isLoopback } from '../../../engine/loopback.ts';

declare module 'fastify' {
  interface FastifyInstance {
    /** The address at which browsers reach this instance. */
    site: Site;
  }
}

/** The address at which browsers reach this instance: `public_url` if set, because a proxy may send any Host. */
export interface Site {
  /** The origin that people see, without a slash at the end. */
  readonly origin: (request: FastifyRequest) => string;
  /** Whether cookies need TLS: always except on loopback, where browsers accept them without. */
  readonly isSecure: (request: FastifyRequest) => boolean;
  /** Options of a cookie for pages under a path: no script reads it, no form of another site sends it. */
  readonly cookie: (
    request: FastifyRequest,
    path: string,
  ) => { readonly path: string; readonly httpOnly: true; readonly sameSite: 'lax'; readonly secure: boolean };
  /** Whether a page of this origin sent the request (by Fetch Metadata or the Origin header). */
  readonly isSameOrigin: (request: FastifyRequest) => boolean;
}

/** @param publicUrl the configured URL, or `''` to use the Host header */
export function siteOf(publicUrl: () => string): Site {
  const origin: Site['origin'] = (request) => {
    const configured = publicUrl();
    return URL.canParse(configured) ? new URL(configured).origin : `${request.protocol}://${request.host}`;
  };
  const isSecure: Site['isSecure'] = (request) => {
    const url = origin(request);
    if (!URL.canParse(url)) return true;
    const { protocol, hostname } = new URL(url);
    return protocol === 'https:' || !(isLoopback(hostname) || hostname.endsWith('.localhost'));
  };
  return {
    origin,
    isSecure,
    cookie: (request, path) => ({ path, httpOnly: true, sameSite: 'lax', secure: isSecure(request) }),
    isSameOrigin: (request) => {
      const { origin: sent, 'sec-fetch-site': site } = request.headers;
      if (site !== undefined) return site === 'same-origin';
      if (sent === undefined || !URL.canParse(sent)) return false;
      return new URL(sent).host === request.host || new URL(sent).origin === origin(request);
    },
  };
}

/** Methods that change nothing. */
export const isSafe = (method: string): boolean =>
  method === 'GET' || method === 'HEAD' || method === 'OPTIONS';
