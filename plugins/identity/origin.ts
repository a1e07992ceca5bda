import type { FastifyRequest } from 'fastify';

const loopback = /^(localhost|127(?:\.\d{1,3}){3}|\[::1\]|.+\.localhost)$/i;

declare module 'fastify' {
  interface FastifyInstance {
    /** Where browsers reach this instance. */
    site: Site;
  }
}

/** Where browsers reach this instance: `public_url` decides, because a proxy may send any Host. */
export interface Site {
  /** The origin that people see, without a slash at the end. */
  readonly origin: (request: FastifyRequest) => string;
  /** Whether cookies need TLS: always but on loopback, where browsers do without. */
  readonly isSecure: (request: FastifyRequest) => boolean;
  /** Whether a browser's page of this very origin made the request (Fetch Metadata, else the Origin header). */
  readonly isSameOrigin: (request: FastifyRequest) => boolean;
}

/** @param publicUrl what is configured at the moment; `''` where nothing is, and Host has to do */
export function siteOf(publicUrl: () => string): Site {
  const origin: Site['origin'] = (request) => {
    const configured = publicUrl();
    return URL.canParse(configured) ? new URL(configured).origin : `${request.protocol}://${request.host}`;
  };
  return {
    origin,
    isSecure: (request) => {
      const url = origin(request);
      if (!URL.canParse(url)) return true;
      const { protocol, hostname } = new URL(url);
      return protocol === 'https:' || !loopback.test(hostname);
    },
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
