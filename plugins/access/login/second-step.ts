import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { HttpError } from '../../../engine/errors.ts';
import { tablesOf } from '../../../engine/tables/index.ts';
import {
  type Form,
  field,
  languageOf,
  render,
  type Text,
  type ViewData,
  viewsIn,
} from '../../admin-ui/shell/index.ts';
import { type AuthenticatedUser, findMemberships, hasSecondFactor } from '../identity/index.ts';
import { tickets } from '../secrets/index.ts';
import { type LoginServices, sessionRoute, tooManyAttempts, withCode } from './login.ts';
import { loginTexts } from './texts/index.ts';

const view = viewsIn(import.meta.dirname);

/** A login waiting for its second factor. */
interface FirstStep {
  readonly user: AuthenticatedUser;
  /** How the user was authenticated so far, as text. */
  readonly method: string;
  readonly next: string;
}

const path = '/setup/login/second-factor';
/** Time limit for completing a login, in minutes. */
const lifetimeMinutes = 10;

/** Registers the second step of the login, for users with a second factor. */
export function secondStep(app: FastifyInstance, { database, secrets }: LoginServices): void {
  const firstSteps = tickets<FirstStep>(secrets, 'first step of a login', lifetimeMinutes);
  const cookie = 'crm_first_step';
  const cookieOptions = (request: FastifyRequest) => app.site.cookie(request, path);

  app.decorate('continueLogin', async (request, reply, candidate, { proof, next }) => {
    const { user } = candidate;
    if (proof.secondFactor || !(await hasSecondFactor(tablesOf(database), user.id))) {
      await app.logInAs(request, reply, candidate, proof);
      return reply.redirect(next, 303);
    }
    const ticket = await firstSteps.issue({ user, method: proof.method, next });
    reply.setCookie(cookie, ticket, { ...cookieOptions(request), maxAge: lifetimeMinutes * 60 });
    return reply.redirect(path, 303);
  });

  const showStep = (request: FastifyRequest, reply: FastifyReply, more: ViewData = {}) =>
    render(request, reply, view('second-step'), {
      language: languageOf(request),
      title: loginTexts(languageOf(request))('secondFactor'),
      ...more,
    });
  const readFirstStep = (request: FastifyRequest) => firstSteps.open(request.cookies[cookie]);
  const restart = (reply: FastifyReply) => reply.redirect('/setup/login', 303);

  app.get('/login/second-factor', async (request, reply) =>
    (await readFirstStep(request)) === undefined ? restart(reply) : showStep(request, reply),
  );

  app.post(
    '/login/second-factor',
    { preHandler: app.csrfProtection, config: sessionRoute },
    async (request, reply) => {
      const first = await readFirstStep(request);
      if (first === undefined) return restart(reply);
      const { user, method, next } = first;
      const reject = (status: number, code: string, problem: Text) => {
        request.log.warn({ address: request.ip, users: [user.id], code }, 'login rejected');
        reply.code(status);
        return showStep(request, reply, { problem });
      };
      try {
        const kind = await app.checkCode(user.id, field((request.body ?? {}) as Form, 'code'));
        if (kind === undefined) {
          return await reject(401, 'second_factor_required', loginTexts(languageOf(request))('wrongCode'));
        }
        const candidate = { user, memberships: await findMemberships(tablesOf(database), user.id) };
        const proof = { method: withCode(method, kind), secondFactor: true };
        await app.logInAs(request, reply, candidate, proof);
      } catch (error) {
        if (!(error instanceof HttpError)) throw error;
        // All of the user's sessions were ended, or the user was disabled, after the first step.
        if (error.status === 401) return restart(reply);
        if (error.status !== 429) throw error;
        reply.headers(error.extra.headers ?? {});
        return reject(429, error.code, tooManyAttempts(languageOf(request)));
      }
      reply.clearCookie(cookie, cookieOptions(request));
      return reply.redirect(next, 303);
    },
  );
}
