import { Readable } from 'node:stream';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Resource } from '../../../engine/compile/index.ts';
import type { Database } from '../../../engine/database/index.ts';
import { UserError } from '../../../engine/errors.ts';
import { administratorProfile } from '../../../engine/records/index.ts';
import { transaction } from '../../../engine/tables/index.ts';
import { cookieName, type MembershipRow, membershipRows } from '../../access/identity/index.ts';
import {
  type AnyPage,
  addDoneTexts,
  adminOf,
  type CurrentMember,
  ForbiddenError,
  type Form,
  field,
  type Input,
  isAdministrator,
  type Language,
  type ListContext,
  type ListDefinition,
  languageOf,
  membershipsOf,
  messageIn,
  personOf,
  redirectDone,
  show,
  signedIn,
  TranslatedError,
  userList,
} from '../../admin-ui/shell/index.ts';
import { exportOrganization, recordExport } from './export.ts';
import {
  type ConfiguredSlugs,
  createOrganizationOf,
  type NewOrganizations,
  renameOrganization,
  reservedSlug,
  setPhoneRegion,
} from './organizations.ts';
import { deleteOrganization } from './remove.ts';
import { organizationsTexts } from './texts/index.ts';

const { later } = organizationsTexts;

/** Services required for the pages. */
export interface OrganizationServices {
  readonly database: Database;
  readonly resources: readonly Resource[];
  /** Their records are exported, too. */
  readonly retiredResources?: readonly Resource[];
  readonly newOrganizations: () => NewOrganizations;
  readonly configuredSlugs: () => Promise<ConfiguredSlugs>;
}

const listUrl = '/setup/organizations';

/** The user's organizations. */
const organizations: ListDefinition<MembershipRow, ListContext<OrganizationServices>> = {
  source: membershipRows,
  plural: later('rows'),
  columns: [
    {
      title: later('name'),
      cell: ({ name, slug }) => ({ text: name, href: `/setup/o/${slug}` }),
      by: 'lower(o.name)',
    },
    { title: later('slug'), cell: ({ slug }) => ({ code: slug }), by: 'o.slug' },
    { title: later('yourProfile'), cell: ({ profile }) => ({ text: profile }), by: 'lower(p.name)' },
  ],
  empty: later('none'),
  menu: ({ name, slug, profile }, { urlOf, language }) => {
    const t = organizationsTexts(language);
    const links = [
      { label: t('rename'), name: t('renameName', { name }), href: urlOf(`${slug}/rename`) },
      {
        label: t('phoneNumbers'),
        name: t('phoneNumbersName', { name }),
        href: urlOf(`${slug}/phone-numbers`),
      },
      { label: t('export'), name: t('exportName', { name }), href: urlOf(`${slug}/export`), isFile: true },
      { label: t('delete'), name: t('deleteName', { name }), href: urlOf(`${slug}/delete`) },
    ];
    return { links: profile === administratorProfile ? links : [] };
  },
};

/**
 * Registers the list of a user's organizations, and the pages for creating, renaming, exporting and deleting
 * an organization, and for the country of its phone numbers.
 */
export function organizationPages(app: FastifyInstance, services: OrganizationServices): void {
  const { database, resources, retiredResources = [], newOrganizations, configuredSlugs } = services;
  addDoneTexts(app, {
    'organization-made': later('created'),
    'organization-renamed': later('saved'),
    'organization-phone-region': later('phoneRegionSaved'),
    'organization-deleted': later('deleted'),
  });
  const preHandler = signedIn(app);
  const canCreate = (request: FastifyRequest) =>
    newOrganizations() === 'administrators' && membershipsOf(personOf(request)).some(isAdministrator);
  const listOrganizations = userList(app, services, listUrl, organizations);
  app.get('/organizations', { preHandler }, async (request, reply) => {
    const language = languageOf(request);
    const t = organizationsTexts(language);
    const list = {
      title: t('organizations'),
      ...(await listOrganizations(request)),
      ...(canCreate(request) && { primary: { label: t('newOrganization'), href: `${listUrl}/new` } }),
    };
    return show(request, reply, { kind: 'list', ...list }, { language });
  });

  const creatorOf = (request: FastifyRequest) => {
    if (!canCreate(request)) throw new ForbiddenError(organizationsTexts.later('cannotCreate'));
    return personOf(request).session.user;
  };
  form(app, 'new', creatorOf, newPage, async (request, reply, user, form) => {
    const input = { slug: field(form, 'slug').trim(), name: field(form, 'name') };
    if ((await configuredSlugs()).has(input.slug)) throw reservedSlug(input.slug);
    await transaction(database, (tables) =>
      createOrganizationOf(tables, app.actor(request, user), user.email, input),
    );
    reloadSession(request);
    return redirectDone(request, reply, listUrl, 'organization-made', { name: input.name.trim() });
  });

  const streams = ['application/x-ndjson'];
  app.get('/organizations/:org/export', { preHandler, config: { streams } }, async (request, reply) => {
    const { membership, actor } = adminOf(app, request);
    const isHead = request.method === 'HEAD';
    if (!isHead) await recordExport(database, actor, membership.organization);
    reply.header('content-type', 'application/x-ndjson; charset=utf-8');
    reply.header('content-disposition', `attachment; filename="${membership.slug}.ndjson"`);
    return reply.send(
      isHead
        ? Readable.from([])
        : exportOrganization(
            { database, resources: [...resources, ...retiredResources] },
            membership.organization,
          ),
    );
  });

  const admin = (request: FastifyRequest) => adminOf(app, request);
  form(app, ':org/rename', admin, renamePage, async (request, reply, { membership, actor }, form) => {
    const [name, slug] = [field(form, 'name'), field(form, 'slug').trim()];
    const slugsInConfig = await configuredSlugs();
    if (slug !== membership.slug && slugsInConfig.has(slug)) throw reservedSlug(slug);
    await transaction(database, (tables) =>
      renameOrganization(tables, actor, membership.organization, { name, slug, configured: slugsInConfig }),
    );
    reloadSession(request);
    return redirectDone(request, reply, listUrl, 'organization-renamed', {
      name: name.trim(),
      id: membership.organization,
    });
  });

  const phoneNumbers = ':org/phone-numbers';
  form(app, phoneNumbers, admin, phonePage, async (request, reply, { membership, actor }, form) => {
    const { organization, name } = membership;
    await transaction(database, (tables) =>
      setPhoneRegion(tables, actor, organization, field(form, 'country').trim()),
    );
    reloadSession(request);
    return redirectDone(request, reply, listUrl, 'organization-phone-region', { name, id: organization });
  });

  form(app, ':org/delete', admin, deletePage, async (request, reply, { membership }, form) => {
    const { organization, slug, name } = membership;
    if (field(form, 'slug').trim() !== slug) throw new TranslatedError(later('typeSlugToConfirm', { slug }));
    await deleteOrganization(database, organization);
    reloadSession(request);
    return redirectDone(request, reply, listUrl, 'organization-deleted', { name });
  });
}

/** Discards the cached session so that the next page reloads its memberships. */
const reloadSession = (request: FastifyRequest): void => {
  const { server } = request;
  server.forgetSession({
    token: request.cookies[cookieName(server.site, request)],
    jti: personOf(request).session.jti,
  });
};

type PageData = AnyPage & { title: string };

/**
 * Registers a page with a form and its action.
 * @param subjectOf returns the page's subject; throws HttpError 403 if the user is not allowed to access it
 */
function form<Subject>(
  app: FastifyInstance,
  name: string,
  subjectOf: (request: FastifyRequest) => Subject,
  pageFor: (subject: Subject, values: Form, language: Language) => PageData,
  submit: (
    request: FastifyRequest,
    reply: FastifyReply,
    subject: Subject,
    input: Form,
  ) => Promise<FastifyReply>,
): void {
  const path = `/organizations/${name}`;
  const showForm = (
    request: FastifyRequest,
    reply: FastifyReply,
    subject: Subject,
    input: Form,
    problem?: string,
  ) => {
    const language = languageOf(request);
    return show(request, reply, pageFor(subject, input, language), {
      language,
      above: { label: organizationsTexts(language)('organizations'), href: listUrl },
      ...(problem !== undefined && { problem }),
    });
  };
  app.get(path, { preHandler: signedIn(app) }, async (request, reply) =>
    showForm(request, reply, subjectOf(request), {}),
  );
  app.post(path, { preHandler: [signedIn(app), app.csrfProtection] }, async (request, reply) => {
    const subject = subjectOf(request);
    const input = (request.body ?? {}) as Form;
    try {
      return await submit(request, reply, subject, input);
    } catch (error) {
      if (!(error instanceof UserError)) throw error;
      reply.code(400);
      return showForm(request, reply, subject, input, messageIn(error, languageOf(request)));
    }
  });
}

/**
 * Returns the input fields for a name and a slug, filled with the submitted values or, initially, the stored
 * values.
 */
const nameInputs = (
  input: Form,
  { name, slug }: { readonly name: string; readonly slug: string },
  help: string,
  t: ReturnType<typeof organizationsTexts>,
): readonly Input[] => [
  {
    kind: 'line',
    name: 'name',
    label: t('name'),
    value: input.name === undefined ? name : field(input, 'name'),
    required: true,
    maxLength: 200,
    focus: true,
  },
  {
    kind: 'line',
    name: 'slug',
    label: t('slug'),
    value: input.slug === undefined ? slug : field(input, 'slug'),
    required: true,
    maxLength: 63,
    help,
  },
];

const newPage = (_creator: unknown, input: Form, language: Language): PageData => {
  const t = organizationsTexts(language);
  return {
    kind: 'form',
    title: t('newOrganization'),
    intro: t('newIntro'),
    action: `${listUrl}/new`,
    inputs: nameInputs(input, { name: '', slug: '' }, t('slugHelp'), t),
    submit: t('create'),
    cancel: listUrl,
  };
};

const renamePage = ({ membership }: CurrentMember, input: Form, language: Language): PageData => {
  const t = organizationsTexts(language);
  return {
    kind: 'form',
    title: t('renameName', { name: membership.name }),
    action: `${listUrl}/${membership.slug}/rename`,
    inputs: nameInputs(input, membership, t('changedSlugHelp'), t),
    submit: t('save'),
    cancel: listUrl,
    danger: { label: t('deleteOrganization'), href: `${listUrl}/${membership.slug}/delete` },
  };
};

const phonePage = (
  { membership: { name, slug, phoneRegion = '' } }: CurrentMember,
  input: Form,
  language: Language,
): PageData => {
  const t = organizationsTexts(language);
  return {
    kind: 'form',
    title: t('phoneNumbersOf', { name }),
    intro: t('phoneIntro'),
    action: `${listUrl}/${slug}/phone-numbers`,
    inputs: [
      {
        kind: 'line',
        name: 'country',
        label: t('country'),
        value: input.country === undefined ? phoneRegion : field(input, 'country'),
        maxLength: 2,
        help: t('countryHelp'),
        focus: true,
      },
    ],
    submit: t('saveCountry'),
    cancel: listUrl,
  };
};

const deletePage = (
  { membership: { name, slug } }: CurrentMember,
  _input: Form,
  language: Language,
): PageData => {
  const t = organizationsTexts(language);
  return {
    kind: 'confirm',
    title: t('deleteQuestion', { name }),
    intro: t('deleteIntro'),
    consequence: t('deleteConsequence'),
    action: `${listUrl}/${slug}/delete`,
    hidden: [],
    inputs: [
      {
        kind: 'line',
        name: 'slug',
        label: t('typeSlug', { slug }),
        required: true,
        autocomplete: 'off',
        focus: true,
      },
    ],
    submit: t('deleteOrganization'),
    cancel: listUrl,
  };
};
