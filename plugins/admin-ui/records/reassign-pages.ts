import type { FastifyInstance } from 'fastify';
import type { Resource } from '../../../engine/compile/index.ts';
import type { Database } from '../../../engine/database/index.ts';
import { resourceLabel } from '../../../engine/definition/index.ts';
import { errors } from '../../../engine/errors.ts';
import { fieldLabel } from '../../../engine/fields/index.ts';
import { personLine } from '../../access/identity/index.ts';
import {
  addDoneTexts,
  addHomeCheck,
  ForbiddenError,
  type Form,
  field as fieldOf,
  isAdministrator,
  redirectDone,
  type Text,
} from '../shell/index.ts';
import { countFormerUsers, findFormerUsers, maxCounted, userFields } from './former-users.ts';
import type { DataRequest, DataRoutes } from './routes.ts';
import { type RecordsText, recordsTexts } from './texts/index.ts';
import { inText, resourceWords } from './values.ts';

/** Number of records per update. */
const batchSize = 500;

const countText = (count: number, t: RecordsText): Text =>
  count > maxCounted ? t('moreThanRecords', { count: maxCounted }) : t('records', { count });

/** Adds the line on the home page about records without an active owner. */
export function reassignNotices(
  app: FastifyInstance,
  { resources, database }: { readonly resources: readonly Resource[]; readonly database: Database },
): void {
  addDoneTexts(app, { 'records-reassigned': recordsTexts.later('reassigned') });
  addHomeCheck(app, async ({ membership: { organization, slug } }, language) => {
    const t = recordsTexts(language);
    const lines = resources.flatMap((resource) =>
      userFields(resource).map(async (field) => {
        // A count that takes too long is omitted, because it must not prevent the page from loading.
        const count = await countFormerUsers(database, organization, resource, field).catch(() => 0);
        if (count === 0) return [];
        const names = {
          records: resourceWords(resource, language),
          field: inText(fieldLabel(field), language),
        };
        return [
          {
            state: 'warn' as const,
            text: t('withoutActive', { ...names, found: countText(count, t) }),
            link: {
              label: t('reassign'),
              name: t('reassignWithout', names),
              href: `/setup/o/${slug}/data/${resource.name}/reassign?field=${field.name}`,
            },
          },
        ];
      }),
    );
    return (await Promise.all(lines)).flat();
  });
}

/** Registers the form that assigns the records of former members to a member. */
export function reassignPages({ get, post }: DataRoutes, database: Database): void {
  get('/reassign', async (context) => {
    const { field: name = '' } = context.request.query as { field?: string };
    return context.sendPage(await reassignForm(context, database, String(name)));
  });

  post('/reassign', async (context) => {
    const { request, reply, resource, calls, member, path } = context;
    const form = (request.body ?? {}) as Form;
    const field = requireField(context, fieldOf(form, 'field'));
    const { organization } = member.membership;
    const user = (await context.listMembers()).find(({ id }) => id === fieldOf(form, 'user'));
    if (user === undefined) {
      reply.code(400);
      const page = await reassignForm(context, database, field.name);
      return context.sendPage(page, { problem: context.t('chooseCurrentMember') });
    }
    let count = 0;
    let after = '0';
    // Records that the member cannot update are skipped. A later request continues after the maximum.
    for (let visited = 0; visited < maxCounted; visited += batchSize) {
      const limit = batchSize;
      const ids = await findFormerUsers(database, organization, resource, field, { after, limit });
      const last = ids.at(-1);
      if (last === undefined) break;
      const body = { [field.name]: field.type.form.parse(user.id) };
      count += (await calls.patchMany(resource, ids, body)).updated.length;
      after = last;
    }
    return redirectDone(request, reply, path, 'records-reassigned', { name: countText(count, context.t) });
  });
}

/**
 * Returns a field that contains members.
 * @throws HttpError 403 if the member is not an administrator or cannot update records, 404 for another field
 */
function requireField({ resource, calls, member }: DataRequest, name: string) {
  const field = userFields(resource).find((candidate) => candidate.name === name);
  if (field === undefined) throw errors.notFound();
  // The counts include records that other profiles might not be able to see.
  if (!isAdministrator(member.membership) || !calls.allows(resource, 'update'))
    throw new ForbiddenError(recordsTexts.later('notGranted', { action: 'update', object: resource.name }));
  return field;
}

async function reassignForm(context: DataRequest, database: Database, name: string) {
  const { resource, member, path, listMembers, language, t } = context;
  const field = requireField(context, name);
  const { organization } = member.membership;
  const [count, members] = await Promise.all([
    countFormerUsers(database, organization, resource, field),
    listMembers(),
  ]);
  const names = {
    records: resourceWords(resource, language),
    field: inText(fieldLabel(field), language),
  };
  return {
    kind: 'form' as const,
    title: t('reassignWithout', names),
    intro: t('reassignIntro', {
      ...names,
      found: countText(count, t),
      max: t('number', { count: maxCounted }),
    }),
    above: { label: resourceLabel(resource.definition), href: path },
    action: `${path}/reassign`,
    hidden: [{ name: 'field', value: field.name }],
    inputs: [
      {
        kind: 'choice' as const,
        name: 'user',
        label: t('assignTo'),
        required: true,
        options: [
          { value: '', label: t('chooseMember'), selected: true },
          ...members.map((person) => ({ value: person.id, label: personLine(person) })),
        ],
      },
    ],
    submit: t('reassignRecords'),
    cancel: path,
  };
}
