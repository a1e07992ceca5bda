import type { FastifyInstance } from 'fastify';

/** A link below the login form: another way in, or a way out of trouble. */
export interface LoginLink {
  readonly path: string;
  readonly label: string;
  /** Whether the instance's configuration permits it at the moment. */
  readonly isOn: () => boolean;
}

declare module 'fastify' {
  interface FastifyInstance {
    loginLinks: LoginLink[];
  }
}

/** Adds a link to the login page. */
export function addLoginLink(app: FastifyInstance, link: LoginLink): void {
  app.loginLinks.push(link);
}
