import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { type RawBuilder, sql } from 'kysely';
import type { Resource, ResourceView } from '../../../engine/compile/index.ts';
import type { Database } from '../../../engine/database/index.ts';
import { isRowId, isStorable } from '../../../engine/fields/index.ts';
import { assertWritable } from '../../../engine/http/index.ts';
import { allows, type Caller, labelOfAction, membersObject } from '../../../engine/records/index.ts';
import { findRow, listRows, singleLine, tablesOf } from '../../../engine/tables/index.ts';
import { userPrincipal } from '../../access/identity/index.ts';
import { type ConnectorSettings, isMcpEnabled } from '../../access/oauth/index.ts';
import type { InstanceSecrets } from '../../access/secrets/index.ts';
import {
  type Previews,
  type ProposedWrite,
  preparePreviews,
  type WritePreview,
} from '../../admin-ui/records/index.ts';
import {
  type AnyPage,
  addDoneTexts,
  addHomeParts,
  type CurrentMember,
  type DisplayValue,
  type Form,
  field,
  fields,
  joinTexts,
  type Language,
  languageOf,
  linkWithParameters,
  memberOf,
  parametersOf,
  redirectDone,
  show,
  signedIn,
  type Text,
  type TextIn,
} from '../../admin-ui/shell/index.ts';
import {
  type ApprovalFailure,
  grantOf,
  type Proposal,
  type ProposedOperation,
  prepareApprovals,
  proposalRows,
  proposalSizes,
  proposedBody,
} from './approval.ts';
import { type ProposalState, proposalState } from './proposals.ts';
import { agentsTexts } from './texts/index.ts';

/** Services used by the pages. */
interface ProposalServices {
  readonly database: Database;
  readonly resources: readonly Resource[];
  readonly secrets: InstanceSecrets;
  readonly settings: { readonly current: { readonly mcp: ConnectorSettings } };
}

const { later } = agentsTexts;

/** Number of proposals per page, on the home page, and per batch in which a page searches for those that a member can see. */
const [pageLength, homeLength, batchLength] = [50, 5, 100];
/** Maximum number of batches that a page reads. */
const maxBatches = 20;
/**
 * Maximum size of the bodies that a page contains, and that it reads in one batch, in bytes, because a body can be as large as
 * a request.
 */
const maxBodyLength = 2 * 1024 * 1024;
/** Maximum number of proposals that are approved together. */
const maxSelected = pageLength;
const maxReason = 500;

const pending = sql`p.status = 'pending' and p.expires_at > now()`;

/** The views of the list. */
const views: Readonly<Record<string, { readonly label: TextIn; readonly where: RawBuilder<unknown> }>> = {
  pending: { label: later('statePending'), where: pending },
  decided: { label: later('decided'), where: sql`not (${pending})` },
  all: { label: later('all'), where: sql`true` },
};

/** How each state is displayed. */
const states: Readonly<Record<ProposalState, { readonly label: TextIn } & Pick<DisplayValue, 'state'>>> = {
  pending: { label: later('statePending') },
  approved: { label: later('stateApproved'), state: 'good' },
  rejected: { label: later('stateRejected'), state: 'bad' },
  outdated: { label: later('stateOutdated'), state: 'quiet' },
  expired: { label: later('stateExpired'), state: 'quiet' },
};

const stateValue = (proposal: Proposal, language: Language): DisplayValue => {
  const { label, state } = states[proposalState(proposal)];
  return { text: label(language), ...(state && { state }) };
};

/** A proposal as a member sees it. */
interface VisibleProposal {
  readonly proposal: Proposal;
  readonly write: ProposedWrite;
  readonly preview: WritePreview;
  /** What the proposal does, in one line. */
  readonly line: Text;
}

/** A member's request for proposals. */
interface MemberContext {
  readonly request: FastifyRequest;
  readonly member: CurrentMember;
  readonly language: Language;
  readonly t: ReturnType<typeof agentsTexts>;
  readonly path: string;
  /** Prepares the previews on the first call, because many pages have none. */
  readonly previews: () => Promise<Previews>;
}

/** Adds the pages on which members see the proposals that they can approve, and decide about them. */
export function proposalPages(app: FastifyInstance, services: ProposalServices): void {
  const { database, resources } = services;
  const tables = tablesOf(database);
  const previewsOf = preparePreviews(app, services);
  const { approve, reject } = prepareApprovals(app, services);

  const contextOf = (request: FastifyRequest, language = languageOf(request)): MemberContext => {
    const member = memberOf(app, request);
    let previews: Promise<Previews> | undefined;
    return {
      ...{ request, member, language },
      t: agentsTexts(language),
      path: `/setup/o/${member.membership.slug}/proposals`,
      previews: () => {
        previews ??= previewsOf(request, member, language);
        return previews;
      },
    };
  };

  /** Returns the grant that a proposal requires, and the resource as the member sees it; undefined if the member lacks the grant. */
  const permission = (
    { member }: MemberContext,
    proposal: ProposedOperation,
  ): { readonly grant: string; readonly view: ResourceView } | undefined => {
    const { grants } = member.membership;
    const view = resources.find(({ name }) => name === proposal.resource)?.viewFor(grants);
    const grant = view && grantOf(proposal, view);
    if (view === undefined || grant === undefined) return undefined;
    return allows(grants, view.context.stored, grant) ? { grant, view } : undefined;
  };

  /** Returns a proposal as the member sees it, or undefined if the member cannot perform it or see all of it. */
  const visible = async (
    context: MemberContext,
    proposal: Proposal,
  ): Promise<VisibleProposal | undefined> => {
    const { previews, t } = context;
    const permitted = permission(context, proposal);
    if (permitted === undefined) return undefined;
    const { grant, view } = permitted;
    const write: ProposedWrite = {
      ...{ grant, resource: proposal.resource, body: proposedBody(proposal) },
      // A new record has an ID as soon as it has been created.
      id: proposal.tool === 'create' ? null : proposal.recordId,
      isInput: proposal.tool === 'act',
      isTrashed: proposal.tool === 'restore',
    };
    const preview = await (await previews()).preview(write);
    if (preview === undefined) return undefined;
    const action = view.actions.find(({ name }) => name === proposal.action);
    return { proposal, write, preview, line: lineOf(t, proposal, preview, action && labelOfAction(action)) };
  };

  /** Returns the newest proposals that the member can see, and the ID before which the next page continues. */
  const listVisible = async (
    context: MemberContext,
    { where, before, limit }: { where: readonly RawBuilder<unknown>[]; before?: string; limit: number },
  ): Promise<{ readonly proposals: readonly VisibleProposal[]; readonly next?: string | undefined }> => {
    const { organization } = context.member.membership;
    const proposals: VisibleProposal[] = [];
    let isWithinLength = withinLength();
    let position = before;
    for (let batch = 0; batch < maxBatches; batch++) {
      // Large proposals that the member cannot see must not hide the others.
      if (proposals.length === 0) isWithinLength = withinLength();
      const older = position === undefined ? [] : [sql`p.id < ${position}::bigint`];
      const rows = await listRows(tables, proposalSizes, organization, {
        where: [...where, ...older],
        limit: batchLength,
      });
      const permitted = rows.filter((row) => permission(context, row) !== undefined);
      const readable = permitted.filter(isWithinLength);
      // Selected by ID, because agents can add proposals between the statements.
      const ids = readable.map(({ id }) => id);
      const selection = { where: [...where, sql`p.id = any(${ids}::bigint[])`] };
      const complete = ids.length === 0 ? [] : await listRows(tables, proposalRows, organization, selection);
      for (const row of complete) {
        const entry = await visible(context, row);
        if (entry !== undefined) proposals.push(entry);
        if (proposals.length === limit) return { proposals, next: row.id };
      }
      if (readable.length < permitted.length) {
        position = ids.at(-1) ?? position;
        if (proposals.length > 0) return { proposals, next: position };
      } else {
        if (rows.length < batchLength) return { proposals };
        position = rows.at(-1)?.id;
      }
    }
    return { proposals, next: position };
  };

  /** Finds a proposal that the member can see. */
  const findVisible = async (context: MemberContext, id: string): Promise<VisibleProposal | undefined> => {
    if (!isRowId(id)) return undefined;
    const row = await findRow(tables, proposalRows, context.member.membership.organization, id);
    return row && visible(context, row);
  };

  /** Approves a proposal. @returns why it was not approved, or undefined */
  const approveVisible = async (
    { request, member, previews, t }: MemberContext,
    { proposal, write, preview }: VisibleProposal,
  ): Promise<Text | undefined> => {
    const { person, membership } = member;
    const caller: Caller = {
      principal: userPrincipal(person.session.user, membership),
      requestId: request.id,
    };
    const failure = await approve(proposal, caller, preview.tag);
    const changed =
      failure === 'outdated' ? await (await previews()).changedSince(write, proposal.created_at) : [];
    return failure && failureText(t, proposal, failure, changed);
  };

  const send = (
    { request, member, language, path }: MemberContext,
    reply: FastifyReply,
    page: AnyPage & { readonly title: string },
  ) => show(request, reply, page, { language, org: member.membership, section: 'proposals', path });

  const showList = async (context: MemberContext, reply: FastifyReply, problem?: string) => {
    const { request, t, path, language } = context;
    const parameters = parametersOf(request);
    const { show: name = 'pending', run, before } = parameters;
    const view = Object.hasOwn(views, name) ? views[name] : views.all;
    const where = [
      ...(view === undefined ? [] : [view.where]),
      ...(run !== undefined && isStorable(run) ? [sql`p.run = ${run}`] : []),
    ];
    const { proposals, next } = await listVisible(context, {
      where,
      ...(before !== undefined && isRowId(before) && { before }),
      limit: pageLength,
    });
    const linkTo = (changes: Readonly<Record<string, string | undefined>>) =>
      linkWithParameters(path, parameters, { before: undefined, ...changes });
    const canApprove = proposals.some(({ proposal }) => proposalState(proposal) === 'pending');
    return send(context, reply, {
      kind: 'list',
      title: t('proposalsOfAgents'),
      ...(problem !== undefined && { problem }),
      chips: [
        ...Object.entries(views).map(([show, { label }]) => ({
          label: label(language),
          href: linkTo({ show }),
          current: show === name,
        })),
        ...(run === undefined
          ? []
          : [{ label: t('oneRun', { run }), href: linkTo({ run: undefined }), isRemoved: true }]),
      ],
      columns: [
        { title: t('proposal') },
        { title: t('proposedBy') },
        { title: t('run') },
        { title: t('time') },
        { title: t('status') },
      ],
      rows: proposals.map(({ proposal, line }) => ({
        id: proposal.id,
        cells: [
          { text: line, href: `${path}/${proposal.id}` },
          proposerValue(context, proposal),
          proposal.run === null ? {} : { text: proposal.run, href: linkTo({ run: proposal.run }) },
          { time: proposal.created_at },
          stateValue(proposal, language),
        ],
      })),
      empty: { text: t('noProposals') },
      first: before === undefined ? undefined : linkTo({}),
      next: next === undefined ? undefined : linkTo({ before: next }),
      selection: canApprove
        ? { actions: [{ label: t('approveSelected'), href: `${path}/approve`, icon: 'check' }], query: '' }
        : undefined,
    });
  };

  const showProposal = async (
    context: MemberContext,
    reply: FastifyReply,
    entry: VisibleProposal,
    problem?: string,
  ) => {
    const { t, path, language } = context;
    const { proposal, preview, line } = entry;
    const above = { label: t('proposals'), href: path };
    const links = [
      ...(preview.href === undefined ? [] : [{ label: t('openRecord'), href: preview.href }]),
      ...(proposal.run === null
        ? []
        : [
            {
              label: t('showRun'),
              href: `${path}?${new URLSearchParams({ show: 'all', run: proposal.run })}`,
            },
          ]),
    ];
    const page = { title: line, above, links, ...(problem !== undefined && { problem }) };
    if (proposalState(proposal) === 'pending')
      return send(context, reply, {
        kind: 'confirm',
        ...page,
        consequence: t('decide', { key: proposerText(context, proposal) }),
        values: preview.values,
        action: `${path}/${proposal.id}`,
        hidden: [],
        inputs: [
          {
            kind: 'line',
            name: 'reason',
            label: t('reason'),
            help: t('reasonHelp'),
            maxLength: maxReason,
          },
        ],
        submit: t('approve'),
        also: { label: t('reject'), value: 'reject' },
        cancel: path,
        isSafe: proposal.tool !== 'delete',
      });
    return send(context, reply, {
      kind: 'record',
      ...page,
      badges: [stateValue(proposal, language)],
      values: [
        ...preview.values.map(({ label, after }) => ({ label, text: after })),
        { label: t('proposedBy'), ...proposerValue(context, proposal) },
        { label: t('time'), time: proposal.created_at },
        ...(proposal.decided_at === null
          ? []
          : [{ label: t('decided'), ...deciderValue(context, proposal) }]),
        ...(proposal.reason === '' ? [] : [{ label: t('reason'), text: proposal.reason }]),
      ],
    });
  };

  const notFound = (context: MemberContext, reply: FastifyReply) => {
    reply.code(404);
    return showList(context, reply, context.t('missingProposal'));
  };

  const idIn = ({ params }: FastifyRequest): string => (params as { readonly id: string }).id;
  const url = '/o/:org/proposals';
  const preHandler = [signedIn(app), app.csrfProtection];
  app.setupSections.push({
    name: 'proposals',
    title: later('proposals'),
    group: 'Access',
    icon: 'inbox',
    isListed: () => isMcpEnabled(services),
  });
  addDoneTexts(app, { 'proposal-approved': later('approved'), 'proposal-rejected': later('rejected') });

  app.get(url, { preHandler: signedIn(app) }, async (request, reply) => showList(contextOf(request), reply));

  app.get(`${url}/approve`, { preHandler: signedIn(app) }, async (request, reply) => {
    const context = contextOf(request);
    const { t, path } = context;
    const entries = await selected(context, request.query as Form);
    if (entries.length === 0) return reply.redirect(path, 303);
    return send(context, reply, {
      kind: 'confirm',
      title: t('approveMany', { count: entries.length }),
      above: { label: t('proposals'), href: path },
      consequence: joinTexts([
        ...new Set(entries.map(({ proposal }) => t('decide', { key: proposerText(context, proposal) }))),
        t('approveEach'),
      ]),
      items: entries.map(({ line, preview }) =>
        [line, ...preview.values.map(({ label, after }) => `${label}: ${after}`)].join(' · '),
      ),
      action: `${path}/approve`,
      hidden: entries.map(({ proposal }) => ({ name: 'id', value: proposal.id })),
      submit: t('approve'),
      cancel: path,
      isSafe: entries.every(({ proposal }) => proposal.tool !== 'delete'),
    });
  });

  /**
   * Returns the pending proposals that a form selects, oldest first. Proposals whose bodies exceed {@link maxBodyLength} are
   * omitted, which cannot happen with a selection from a page of the list.
   */
  const selected = async (context: MemberContext, form: Form): Promise<readonly VisibleProposal[]> => {
    const ids = [...new Set(fields(form, 'id'))].filter(isRowId).slice(0, maxSelected);
    const sizes = await listRows(tables, proposalSizes, context.member.membership.organization, {
      where: [sql`p.id = any(${ids}::bigint[])`],
    });
    const entries = await Promise.all(sizes.filter(withinLength()).map(({ id }) => findVisible(context, id)));
    return entries
      .flatMap((entry) => (entry !== undefined && proposalState(entry.proposal) === 'pending' ? [entry] : []))
      .toSorted((a, b) => Number(a.proposal.id) - Number(b.proposal.id));
  };

  app.post(`${url}/approve`, { preHandler }, async (request, reply) => {
    const context = contextOf(request);
    assertWritable(app);
    const { t, path } = context;
    const entries = await selected(context, (request.body ?? {}) as Form);
    const kept: string[] = [];
    for (const { proposal } of entries) {
      // An earlier proposal can have changed the same record.
      const entry = await findVisible(context, proposal.id);
      const problem = entry === undefined ? t('missingProposal') : await approveVisible(context, entry);
      if (problem !== undefined) kept.push(`${entry?.line ?? proposal.id}: ${problem}`);
    }
    const approved = t('proposalCount', { count: entries.length - kept.length });
    if (kept.length === 0) return redirectDone(request, reply, path, 'proposal-approved', { name: approved });
    reply.code(409);
    return showList(context, reply, t('partlyApproved', { approved, kept: kept.join('; ') }));
  });

  app.get(`${url}/:id`, { preHandler: signedIn(app) }, async (request, reply) => {
    const context = contextOf(request);
    const entry = await findVisible(context, idIn(request));
    return entry === undefined ? notFound(context, reply) : showProposal(context, reply, entry);
  });

  app.post(`${url}/:id`, { preHandler }, async (request, reply) => {
    const context = contextOf(request);
    assertWritable(app);
    const form = (request.body ?? {}) as Form;
    const entry = await findVisible(context, idIn(request));
    if (entry === undefined) return notFound(context, reply);
    const isRejection = field(form, 'step') === 'reject';
    const problem = isRejection
      ? await rejectVisible(context, entry, field(form, 'reason'))
      : await approveVisible(context, entry);
    if (problem === undefined) {
      const code = isRejection ? 'proposal-rejected' : 'proposal-approved';
      return redirectDone(request, reply, context.path, code, { name: entry.line });
    }
    reply.code(409);
    const current = await findVisible(context, idIn(request));
    return current === undefined
      ? showList(context, reply, problem)
      : showProposal(context, reply, current, problem);
  });

  const rejectVisible = async (
    { request, member, t }: MemberContext,
    { proposal }: VisibleProposal,
    reason: string,
  ): Promise<Text | undefined> => {
    const principal = userPrincipal(member.person.session.user, member.membership);
    const text = singleLine(reason).slice(0, maxReason);
    const isRejected = await reject(proposal, { principal, requestId: request.id }, text);
    return isRejected ? undefined : t('decidedBefore');
  };

  addHomeParts(app, async (request, language) => {
    if (!isMcpEnabled(services)) return {};
    const context = contextOf(request, language);
    const { t, path } = context;
    const { proposals, next } = await listVisible(context, { where: [pending], limit: homeLength });
    // Without visible proposals, the link leads to those that this page has not read.
    if (proposals.length === 0 && next === undefined) return {};
    const items = proposals.map(({ proposal, line }) => ({
      text: line,
      href: `${path}/${proposal.id}`,
      time: proposal.created_at,
      below: proposerText(context, proposal),
    }));
    return {
      lists: [{ title: t('proposalsOfAgents'), items, all: { label: t('allProposals'), href: path } }],
    };
  });
}

/** Returns a filter for the first proposals whose bodies have at most {@link maxBodyLength} in total. It accepts at least one. */
function withinLength(): (row: { readonly size: number }) => boolean {
  let [count, length] = [0, 0];
  return ({ size }) => {
    length += size;
    count++;
    return count === 1 || length <= maxBodyLength;
  };
}

/** Returns what a proposal does, in one line. */
function lineOf(
  t: ReturnType<typeof agentsTexts>,
  { tool, action, recordId }: Proposal,
  { noun, title }: WritePreview,
  label: string | undefined,
): Text {
  const record = { noun, title };
  if (tool === 'create') return t('proposedCreate', record);
  if (tool === 'update') return t('proposedUpdate', record);
  if (tool === 'delete') return t('proposedDelete', record);
  if (tool === 'restore') return t('proposedRestore', record);
  const name = label ?? action;
  return recordId === null
    ? t('proposedCollectionAction', { action: name, noun })
    : t('proposedAction', { ...record, action: name });
}

/** Explains why a proposal was not approved. @param changed labels of the fields that have changed since */
function failureText(
  t: ReturnType<typeof agentsTexts>,
  { key }: Proposal,
  failure: ApprovalFailure,
  changed: readonly string[],
): Text {
  if (failure === 'decided') return t('decidedBefore');
  if (failure === 'expired') return t('expiredBefore');
  if (failure === 'key') return t('keyEnded', { key });
  if (failure === 'outdated')
    return changed.length === 0 ? t('outdated') : t('outdatedFields', { fields: changed.join(', ') });
  return t('notApproved', { error: failure.message });
}

/** Returns a user's name or, if the member can see it, the email address; null if neither is known. */
const personText = (
  { member }: Pick<MemberContext, 'member'>,
  name: string | null,
  email: string | null,
): string | null => name ?? (allows(member.membership.grants, membersObject, 'list') ? email : null);

/** Returns the key that proposes a write, with the member on whose behalf it acts. */
function proposerValue(
  context: Pick<MemberContext, 'member' | 't'>,
  { key, member, memberEmail }: Proposal,
): DisplayValue {
  const person = personText(context, member, memberEmail);
  return { text: key, ...(person !== null && { below: context.t('onBehalfOf', { member: person }) }) };
}

/** Returns the {@link proposerValue} in one line. */
function proposerText(context: Pick<MemberContext, 'member' | 't'>, proposal: Proposal): string {
  const { text, below } = proposerValue(context, proposal);
  return [text, below].filter((part) => part != null).join(' ');
}

/** Returns when a proposal was decided and by whom. */
const deciderValue = (
  context: Pick<MemberContext, 'member'>,
  { decidedBy, decidedByEmail, decided_at: time }: Proposal,
): DisplayValue => ({ time, below: personText(context, decidedBy, decidedByEmail) });
