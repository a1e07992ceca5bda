import type { FastifyReply } from 'fastify';

declare global {
  interface JSON {
    /** https://tc39.es/proposal-json-parse-with-source */
    rawJSON(text: string): object;
  }
}

/** Returns an ID as a JSON number with full 64-bit precision. @param id decimal text */
export const jsonId = (id: string): object => JSON.rawJSON(id);

/** Adds a request header to `Vary`. */
export function varyBy(reply: FastifyReply, header: string): void {
  const previous = reply.getHeader('vary');
  reply.header('vary', previous === undefined ? header : `${String(previous)}, ${header}`);
}

/** Content-Type of every JSON response. */
export const json = 'application/json; charset=utf-8';

/** Content-Type of problem details (RFC 9457), which define no parameters. */
export const problemJson = 'application/problem+json';
