import type { FastifyRequest } from 'fastify';

declare module 'fastify' {
  interface FastifyRequest {
    /**
     * Whose allowance the request uses if it has no principal: the ID of an organization, or another name for a member who
     * has not chosen one. Empty while it is unknown; all such requests share one allowance.
     */
    owner: string;
  }
}

/** The organization that a request's statements and memory count for. */
export const ownerOf = ({ principal, owner }: FastifyRequest): string => principal?.organization ?? owner;
