import type { FastifyInstance } from 'fastify';

/** A link on the login page. */
interface LoginLink {
  readonly path: string;
  readonly label: string;
  /**
   * Whether the link is a login method, which continues to the requested page, rather than a help page for logging in.
   */
  readonly isLoginMethod?: boolean;
}

declare module 'fastify' {
  interface FastifyInstance {
    /** Functions that return the links on the login page according to the current configuration. */
    loginLinks: (() => readonly LoginLink[])[];
  }
}

/** Adds links to the login page. */
export function addLoginLinks(app: FastifyInstance, links: () => readonly LoginLink[]): void {
  app.loginLinks.push(links);
}
