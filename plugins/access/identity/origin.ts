import type { FastifyRequest } from 'fastify';
import { isLoopback } from '../../../engine/loopback.ts';

declare module 'fastify' {
  interface FastifyInstance {
    /** The origin at which browsers reach this instance. */
    site: Site;
  }
}

/**
 * The origin at which browsers reach this instance: `public_url` if it is set, because a proxy can send any Host
 * header.
 */
export interface Site {
  /** Returns the origin that users see, without a trailing slash. */
  readonly origin: (request: FastifyRequest) => string;
  /**
   * Reports whether cookies require TLS. They do, except on loopback, where browsers also accept them without TLS.
   */
  readonly isSecure: (request: FastifyRequest) => boolean;
  /**
   * Returns options for a cookie that is sent to pages under a path. Scripts cannot read the cookie, and forms on
   * other sites do not send it.
   */
  readonly cookie: (
    request: FastifyRequest,
    path: string,
  ) => { readonly path: string; readonly httpOnly: true; readonly sameSite: 'lax'; readonly secure: boolean };
  /** Reports whether a page of this origin sent the request, according to Fetch Metadata or the Origin header. */
  readonly isSameOrigin: (request: FastifyRequest) => boolean;
}

/** Creates the site of this instance. @param publicUrl returns the configured URL, or `''` to use the Host header */
export function siteOf(publicUrl: () => string): Site {
  const origin: Site['origin'] = (request) => {
    const configuredUrl = publicUrl();
    return URL.canParse(configuredUrl)
      ? new URL(configuredUrl).origin
      : `${request.protocol}://${request.host}`;
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
      const { origin: originHeader, 'sec-fetch-site': fetchSite } = request.headers;
      if (fetchSite !== undefined) return fetchSite === 'same-origin';
      if (originHeader === undefined || !URL.canParse(originHeader)) return false;
      return new URL(originHeader).host === request.host || new URL(originHeader).origin === origin(request);
    },
  };
}

/** Reports whether a method is safe (RFC 9110), which means that it does not change anything. */
export const isSafe = (method: string): boolean =>
  method === 'GET' || method === 'HEAD' || method === 'OPTIONS';
