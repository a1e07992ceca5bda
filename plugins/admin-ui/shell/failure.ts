import { STATUS_CODES } from 'node:http';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { HttpError } from '../../../engine/errors.ts';
import { httpErrorOf, sendError } from '../../../engine/http/index.ts';
import type { Membership } from '../../access/identity/index.ts';
import { render } from './render.ts';
import { viewsIn } from './views.ts';

const failureView = viewsIn(import.meta.dirname)('failure');

const failureTexts: Readonly<Record<number, string>> = {
  403: 'This form is no longer valid, or came from elsewhere. Go back, reload the page and try again.',
  404: 'There is no such page.',
  413: 'The form is too large.',
};

/** The organization that the address names, if the user is a member of it: the navigation stays on its pages. */
const membershipOf = ({ person, params }: FastifyRequest): Membership | undefined =>
  person?.session.memberships.get(String((params as { org?: unknown }).org));

/** Sends an error page with the error's status; works without a database. */
export async function sendFailure(
  error: unknown,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<unknown> {
  // While the process drains, requests are refused before a page's headers are set.
  if (!reply.hasHeader('content-security-policy')) return sendError(error, request, reply);
  const { status, code, message, extra } = httpErrorOf(error, request);
  // Our messages are for people, the database's failures among them; the framework's are for programs.
  const isOurs = error instanceof HttpError || (status >= 500 && code !== 'internal');
  const text = isOurs && status !== 404 ? message : failureTexts[status];
  reply.code(status).headers(extra.headers ?? {});
  return render(request, reply, failureView, {
    title: STATUS_CODES[status] ?? 'Failure',
    message: text ?? 'That did not work. Try again later.',
    requestId: status >= 500 ? request.id : undefined,
    hasForms: false,
    org: membershipOf(request),
  });
}
