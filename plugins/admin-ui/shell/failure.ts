import { STATUS_CODES } from 'node:http';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { HttpError } from '../../../engine/errors.ts';
import { httpErrorOf, sendError } from '../../../engine/http/index.ts';
import type { Membership } from '../../access/identity/index.ts';
import { render } from './render.ts';
import { viewsIn } from './views.ts';

const failureView = viewsIn(import.meta.dirname)('failure');

const failureTexts: Readonly<Record<number, string>> = {
  403: 'This form has expired or was sent from another site. Go back, reload the page and try again.',
  404: 'Page not found.',
  413: 'The form is too large.',
};

/** Returns the organization in the URL if the user is a member of it, so that error pages keep its navigation. */
const membershipOf = ({ person, params }: FastifyRequest): Membership | undefined =>
  person?.session.memberships.get(String((params as { org?: unknown }).org));

/** Sends an error page with the error's status. Works even if the database is unavailable. */
export async function sendFailure(
  error: unknown,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<unknown> {
  // While the process drains, requests are rejected before the page headers are set.
  if (!reply.hasHeader('content-security-policy')) return sendError(error, request, reply);
  const { status, code, message, extra } = httpErrorOf(error, request);
  // The project's own messages, including those for database failures, are written for users, unlike the framework's
  // messages.
  const isForUsers = error instanceof HttpError || (status >= 500 && code !== 'internal');
  const text = isForUsers && status !== 404 ? message : failureTexts[status];
  reply.code(status).headers(extra.headers ?? {});
  return render(request, reply, failureView, {
    title: STATUS_CODES[status] ?? 'Failure',
    message: text ?? 'Something went wrong. Try again later.',
    requestId: status >= 500 ? request.id : undefined,
    hasForms: false,
    org: membershipOf(request),
  });
}
