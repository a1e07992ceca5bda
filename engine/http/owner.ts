import type { FastifyRequest } from 'fastify';

declare module 'fastify' {
  interface FastifyRequest {
    /**
     * Owner whose limits apply to a request without a principal: an organization's ID, or another key for a
     * user who has not selected an organization. Empty if unknown; all such requests share the same limits.
     */
    owner: string;
  }
}

/** Returns the owner to which a request's statements and memory are charged. */
export const ownerOf = ({ principal, owner }: FastifyRequest): string => principal?.organization ?? owner;
