import type { FastifyInstance, FastifyRequest } from 'fastify';
import { type CurrentMember, isAdministrator, memberOf, signedIn } from './access.ts';
import { type Language, type TextIn, textIn } from './catalogue.ts';
import { recordSections } from './frame.ts';
import { languageOf } from './locale.ts';
import { show } from './render.ts';
import { shellTexts } from './texts/index.ts';
import type { HomePage, HomeParts } from './views.ts';

/**
 * Returns a module's lines for an organization's home page. They report issues that need attention, or
 * confirm that everything is fine.
 */
type HomeCheck = (admin: CurrentMember, language: Language) => Promise<HomePage['lines']>;

/** Returns a module's parts of the home page of the organization in the URL. */
type HomePartsOf = (request: FastifyRequest, language: Language) => Promise<HomeParts>;

/** A step of the checklist for a new organization. */
interface HomeStep {
  readonly label: string | TextIn;
  /** Path of the page on which the step is done, relative to the organization's home page. */
  readonly path: string;
  readonly isDone: (admin: CurrentMember) => Promise<boolean>;
}

declare module 'fastify' {
  interface FastifyInstance {
    homeChecks: HomeCheck[];
    homeParts: HomePartsOf[];
    homeSteps: HomeStep[];
  }
}

/** Adds charts and lists to the organization's home page. They must show only what the member can see. */
export function addHomeParts(app: FastifyInstance, partsOf: HomePartsOf): void {
  app.homeParts.push(partsOf);
}

/** Adds a step to the checklist that administrators of a new organization see. */
export function addHomeStep(app: FastifyInstance, step: HomeStep): void {
  app.homeSteps.push(step);
}

/** Adds a check whose lines are shown to administrators on the organization's home page. */
export function addHomeCheck(app: FastifyInstance, check: HomeCheck): void {
  app.homeChecks.push(check);
}

/** Display order of the lines, worst state first. */
const order = ['bad', 'warn', 'good'] as const;

/** Cookie that hides the checklist of an organization. */
const hidesSteps = 'crm_hide_steps';

/** How long the checklist stays hidden, in seconds. */
const hiddenFor = 365 * 86_400;

/** Returns the checklist, or undefined if all steps are done or the member has hidden it. */
async function stepsOf(
  app: FastifyInstance,
  request: FastifyRequest,
  member: CurrentMember,
  language: Language,
): Promise<HomePage['steps']> {
  const base = `/setup/o/${member.membership.slug}`;
  if (!isAdministrator(member.membership) || request.cookies[hidesSteps] !== undefined) return undefined;
  const steps = await Promise.all(
    app.homeSteps.map(async ({ label, path, isDone }) => ({
      label: textIn(label, language),
      href: `${base}/${path}`,
      isDone: await isDone(member),
    })),
  );
  return steps.every(({ isDone }) => isDone) ? undefined : { hide: `${base}/hide-steps`, items: steps };
}

/**
 * Registers the organization's home page: a checklist and status lines for administrators, and charts, lists and links to
 * records for all members.
 */
export function homePage(app: FastifyInstance): void {
  app.post(
    '/o/:org/hide-steps',
    { preHandler: [signedIn(app), app.csrfProtection] },
    async (request, reply) => {
      const home = `/setup/o/${memberOf(app, request).membership.slug}`;
      reply.setCookie(hidesSteps, '1', { ...app.site.cookie(request, home), maxAge: hiddenFor });
      return reply.redirect(home, 303);
    },
  );

  app.get('/o/:org', { preHandler: signedIn(app) }, async (request, reply) => {
    const member = memberOf(app, request);
    const { membership } = member;
    const language = languageOf(request);
    const t = shellTexts(language);
    const lines = isAdministrator(membership)
      ? (await Promise.all(app.homeChecks.map((check) => check(member, language)))).flat()
      : [];
    const [steps, ...parts] = await Promise.all([
      stepsOf(app, request, member, language),
      ...app.homeParts.map((partsOf) => partsOf(request, language)),
    ]);
    const groups = recordSections(app, membership, language).map(({ title, entries }) => ({
      title,
      links: entries.map((entry) => ({
        label: entry.title,
        hue: entry.hue,
        ...(entry.icon && { icon: entry.icon }),
        href: `/setup/o/${membership.slug}/${entry.name}`,
      })),
    }));
    const isHealthy = lines.every(({ state }) => state === 'good');
    return show(
      request,
      reply,
      {
        kind: 'home',
        title: membership.name,
        ...(isAdministrator(membership) && isHealthy && { intro: t('nothingToDo') }),
        ...(groups.length === 0 &&
          !isAdministrator(membership) && {
            intro: t('noAccess'),
          }),
        lines: lines.toSorted((a, b) => order.indexOf(a.state) - order.indexOf(b.state)),
        steps,
        lists: parts.flatMap(({ lists = [] }) => lists),
        trends: parts.flatMap(({ trends = [] }) => trends),
        charts: parts.flatMap(({ charts = [] }) => charts),
        groups,
      },
      { language, org: membership, section: '' },
    );
  });
}
