import type { FastifyInstance } from 'fastify';

/** A link on the login page. */
export interface LoginLink {
  readonly path: string;
  readonly label: string;
  /** Whether the link is another login method, which continues to the requested page, rather than help with logging in. */
  readonly isWayIn?: boolean;
}

declare module 'fastify' {
  interface FastifyInstance {
    /** The links on the login page, as the instance's configuration permits them at the moment. */
    loginLinks: (() => readonly LoginLink[])[];
  }
}

/** Adds links to the login page. */
export function addLoginLinks(app: FastifyInstance, links: () => readonly LoginLink[]): void {
  app.loginLinks.push(links);
}
