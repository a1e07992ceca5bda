import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Resource } from '../../../engine/compile/index.ts';
import type { Database } from '../../../engine/database/index.ts';
import { errors, UserError } from '../../../engine/errors.ts';
import { administratorProfile } from '../../../engine/records/index.ts';
import { transaction } from '../../../engine/tables/index.ts';
import { cookieName, type MembershipRow, membershipRows } from '../../access/identity/index.ts';
import {
  type AnyPage,
  addDoneTexts,
  adminOf,
  type CurrentMember,
  type Form,
  field,
  type Input,
  isAdministrator,
  type ListContext,
  type ListDefinition,
  membershipsOf,
  personOf,
  redirectDone,
  show,
  signedIn,
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
  plural: 'organizations',
  columns: [
    {
      title: 'Name',
      cell: ({ name, slug }) => ({ text: name, href: `/setup/o/${slug}` }),
      by: 'lower(o.name)',
    },
    { title: 'Slug', cell: ({ slug }) => ({ code: slug }), by: 'o.slug' },
    { title: 'Your profile', cell: ({ profile }) => ({ text: profile }), by: 'lower(p.name)' },
  ],
  empty: 'You are not a member of any organization.',
  menu: ({ name, slug, profile }, { urlOf }) => ({
    links:
      profile === administratorProfile
        ? ['Rename', 'Phone numbers', 'Export', 'Delete'].map((label) => ({
            label,
            name: `${label} ${name}`,
            href: urlOf(`${slug}/${label.toLowerCase().replace(' ', '-')}`),
          }))
        : [],
  }),
};

/**
 * Registers the list of a user's organizations, and the pages for creating, renaming, exporting and deleting
 * an organization, and for the country of its phone numbers.
 */
export function organizationPages(app: FastifyInstance, services: OrganizationServices): void {
  const { database, resources, retiredResources = [], newOrganizations, configuredSlugs } = services;
  addDoneTexts(app, {
    'organization-made': '{} created. You are its administrator.',
    'organization-renamed': '{} updated.',
    'organization-phone-region': 'Phone numbers of {} updated.',
    'organization-deleted': '{} and all its data deleted.',
  });
  const preHandler = signedIn(app);
  const canCreate = (request: FastifyRequest) =>
    newOrganizations() === 'administrators' && membershipsOf(personOf(request)).some(isAdministrator);
  const listOrganizations = userList(app, services, listUrl, organizations);
  app.get('/organizations', { preHandler }, async (request, reply) =>
    show(request, reply, {
      kind: 'list',
      title: 'Organizations',
      ...(await listOrganizations(request)),
      ...(canCreate(request) && { primary: { label: 'New organization', href: `${listUrl}/new` } }),
    }),
  );

  const creatorOf = (request: FastifyRequest) => {
    if (!canCreate(request)) throw errors.notPermitted('You cannot create organizations on this instance.');
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
    await recordExport(database, actor, membership.organization);
    reply.header('content-type', 'application/x-ndjson; charset=utf-8');
    reply.header('content-disposition', `attachment; filename="${membership.slug}.ndjson"`);
    return reply.send(
      exportOrganization(
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
    if (field(form, 'slug').trim() !== slug) throw new UserError(`type “${slug}” to confirm the deletion`);
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

const parentLink = { above: { label: 'Organizations', href: listUrl } };

type PageData = AnyPage & { title: string };

/**
 * Registers a page with a form and its action.
 * @param subjectOf returns the page's subject; throws HttpError 403 if the user is not allowed to access it
 */
function form<Subject>(
  app: FastifyInstance,
  name: string,
  subjectOf: (request: FastifyRequest) => Subject,
  pageFor: (subject: Subject, values: Form) => PageData,
  submit: (
    request: FastifyRequest,
    reply: FastifyReply,
    subject: Subject,
    input: Form,
  ) => Promise<FastifyReply>,
): void {
  const path = `/organizations/${name}`;
  app.get(path, { preHandler: signedIn(app) }, async (request, reply) =>
    show(request, reply, pageFor(subjectOf(request), {}), parentLink),
  );
  app.post(path, { preHandler: [signedIn(app), app.csrfProtection] }, async (request, reply) => {
    const subject = subjectOf(request);
    const input = (request.body ?? {}) as Form;
    try {
      return await submit(request, reply, subject, input);
    } catch (error) {
      if (!(error instanceof UserError)) throw error;
      reply.code(400);
      return show(request, reply, pageFor(subject, input), { ...parentLink, problem: error.message });
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
): readonly Input[] => [
  {
    kind: 'line',
    name: 'name',
    label: 'Name',
    value: input.name === undefined ? name : field(input, 'name'),
    required: true,
    maxLength: 200,
    focus: true,
  },
  {
    kind: 'line',
    name: 'slug',
    label: 'Slug',
    value: input.slug === undefined ? slug : field(input, 'slug'),
    required: true,
    maxLength: 63,
    help,
  },
];

const newPage = (_creator: unknown, input: Form): PageData => ({
  kind: 'form',
  title: 'New organization',
  intro: 'The organization starts empty, with you as its administrator.',
  action: `${listUrl}/new`,
  inputs: nameInputs(input, { name: '', slug: '' }, 'Used in URLs. Lowercase letters, digits and hyphens.'),
  submit: 'Create organization',
  cancel: listUrl,
});

const renamePage = ({ membership }: CurrentMember, input: Form): PageData => ({
  kind: 'form',
  title: `Rename ${membership.name}`,
  action: `${listUrl}/${membership.slug}/rename`,
  inputs: nameInputs(
    input,
    membership,
    'Used in URLs and in ?org=. The old slug keeps working and stays reserved for this organization.',
  ),
  submit: 'Save organization',
  cancel: listUrl,
  danger: { label: 'Delete organization', href: `${listUrl}/${membership.slug}/delete` },
});

const phonePage = (
  { membership: { name, slug, phoneRegion = '' } }: CurrentMember,
  input: Form,
): PageData => ({
  kind: 'form',
  title: `Phone numbers of ${name}`,
  intro:
    'Filters and searches find a phone number with and without its country code if the country of numbers without one is known.',
  action: `${listUrl}/${slug}/phone-numbers`,
  inputs: [
    {
      kind: 'line',
      name: 'country',
      label: 'Country',
      value: input.country === undefined ? phoneRegion : field(input, 'country'),
      maxLength: 2,
      help: 'ISO 3166 code, for example DE. If empty, phone numbers are compared only by their digits.',
      focus: true,
    },
  ],
  submit: 'Save country',
  cancel: listUrl,
});

const deletePage = ({ membership: { name, slug } }: CurrentMember): PageData => ({
  kind: 'confirm',
  title: `Delete ${name}?`,
  intro:
    'If you might need its data again, export the organization first. The export link is in the organization list.',
  consequence:
    'Permanently deletes all records, members, keys, integrations and history, and all users with unverified email addresses. Keys stop working immediately.',
  action: `${listUrl}/${slug}/delete`,
  hidden: [],
  inputs: [
    { kind: 'line', name: 'slug', label: `Type “${slug}”`, required: true, autocomplete: 'off', focus: true },
  ],
  submit: 'Delete organization',
  cancel: listUrl,
});
