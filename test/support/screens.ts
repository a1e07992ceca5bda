// The admin UI for an organization named `acme`: its pages and all of their forms, with valid fields.
import { sql } from 'kysely';
import { tablesOf, transaction } from '../../engine/tables/handle.ts';
import { profileId } from '../../plugins/access/profiles/profiles.ts';
import { instanceSecrets } from '../../plugins/access/secrets/instance-secrets.ts';
import { sealing } from '../../plugins/access/secrets/sealing.ts';
import { addTeamMember, createTeam } from '../../plugins/access/teams/teams.ts';
import { feedEnd } from '../../plugins/change-log/feed.ts';
import { createSubscription, sendTest } from '../../webhooks/subscriptions/subscriptions.ts';
import { administratorOf, optionOf, shownIn, signIn, type Visitor } from './forms.ts';
import type { Instance, Organization } from './instance.ts';
import { delivered, integrate } from './partners.ts';
import { command, fresh, logIn, makePerson, type Person } from './people.ts';
import { until } from './process.ts';

/** The organization's pages. */
export const sections = [
  ...['keys', 'members', 'profiles', 'activity', 'integrations', 'deliveries', 'partners'],
  ...['events', 'events?show=event-deliveries', 'teams'],
].map((name) => `/setup/o/acme/${name}`);

/** An administrator of acme with a browser session. */
export interface Administrator extends Person {
  readonly browser: Visitor;
}

/** A form ready to be submitted. */
export interface Ready {
  readonly page: string;
  readonly action: string;
  readonly fields: Readonly<Record<string, string>>;
}

/** Starting point for tests of the admin UI. */
export interface Screens {
  readonly acme: Organization;
  /** The first administrator's browser session. */
  readonly admin: Visitor;
  /** Creates another administrator, whose session the test can end. */
  readonly administrator: () => Promise<Administrator>;
  /** Creates an invitation with the form. */
  readonly invitation: () => Promise<{ path: string; code: string; email: string }>;
  readonly newProfile: () => Promise<string>;
  /** Creates a team with a member and returns the IDs of the team and the membership. */
  readonly newTeam: () => Promise<{ team: string; membership: string }>;
  /** Creates an event delivery and returns its ID. */
  readonly newEventDelivery: () => Promise<string>;
  /** Creates an integration with a processed delivery and returns their IDs. */
  readonly newDelivery: () => Promise<{ integration: string; item: string }>;
  /**
   * Waits until no delivery is pending and subscriptions have read all changes, so that nothing changes in the
   * background.
   */
  readonly settled: () => Promise<void>;
  /** Creates the objects that a form operates on. `own` is the user who submits it. */
  readonly ready: (form: FormName, own: Person) => Promise<Ready>;
}

/** Creates the organizations acme and beta and the helpers for their forms. */
export async function openScreens(instance: Instance): Promise<Screens> {
  const acme = await instance.organization('acme');
  await instance.organization('beta');
  const admin = await signIn(instance, administratorOf(acme));
  const [keys = '', members = '', profiles = ''] = sections;
  const administrator = async () => {
    const person = await makePerson(instance, [{ organization: acme }]);
    return { ...person, browser: await signIn(instance, person) };
  };
  const guest = async () => ({
    email: `${fresh('guest')}@people.example`,
    profile: await optionOf(admin, `${members}/invite`, 'read-only'),
  });
  const invitation = async () => {
    const fields = await guest();
    const answer = await admin.submit(members, `${members}/invite`, fields);
    const path = new URL(shownIn(answer, 'link')).pathname;
    return { path, code: shownIn(answer, 'invitation-code'), email: fields.email };
  };
  const newProfile = async (grant?: string) => {
    const name = fresh('profile');
    await admin.submit(profiles, `${profiles}/create`, { name });
    const id = await profileId(tablesOf(instance.database), acme.id, name);
    if (grant !== undefined) await admin.submit(profiles, `${profiles}/change`, { id, grant });
    return id;
  };
  const newDelivery = async () => {
    const { id: integration } = await integrate(instance, acme, 'telegram');
    return { integration, item: await delivered(instance, acme.id, integration) };
  };
  const newIntegration = async () => ({ id: (await newDelivery()).integration });
  const newSubscription = async () => {
    const { database, config } = instance;
    const { end: place } = await feedEnd(database);
    const made = await transaction(database, async (tables) =>
      createSubscription(tables, command(instance), sealing(instanceSecrets(config)), {
        organization: acme.id,
        profile: await profileId(tables, acme.id, 'read-only'),
        position: place,
        url: `https://${fresh('hook')}.invalid/`,
        resources: ['leads'],
        actions: ['delete'],
        filter: '',
        filterWhen: 'matches',
        transitions: {},
        format: 'standard',
        batch: null,
      }),
    );
    // Paused indefinitely, so that its state does not change.
    await sql`update crm_event_subscriptions set paused_until = 'infinity' where id = ${made.id}::bigint`.execute(
      tablesOf(database),
    );
    return made.id;
  };
  const newEventDelivery = async () => {
    const tables = tablesOf(instance.database);
    const id = await sendTest(tables, acme.id, await newSubscription());
    await sql`update crm_event_deliveries set status = 'done', done_at = now() where id = ${id}::bigint`.execute(
      tables,
    );
    return id;
  };
  const settled = () => {
    const waiting = tablesOf(instance.database).selectFrom('crm_inbox').select('id');
    // Older transactions, even in other databases, delay the changes that subscriptions read.
    const unread = sql`select 1 from crm_event_subscriptions s join crm_ledger l on l.organization_id = s.organization_id
      and (l.transaction, l.id) > (s.transaction, s.ledger_id) and l.version is not null where s.state = 'on' limit 1`;
    return until(
      async () =>
        (await waiting.where('status', '=', 'waiting').execute()).length === 0 &&
        (await unread.execute(tablesOf(instance.database))).rows.length === 0,
      'process pending deliveries and changes',
    );
  };
  const newMember = async () => (await makePerson(instance, [{ organization: acme }])).id;
  const newTeam = async () => {
    const member = await newMember();
    const team = await transaction(instance.database, async (tables) => {
      const id = await createTeam(tables, command(instance), acme.id, fresh('team'));
      await addTeamMember(tables, command(instance), acme.id, id, member);
      return id;
    });
    const rows = tablesOf(instance.database).selectFrom('crm_team_members').select('id');
    const { id } = await rows.where('team_id', '=', team).executeTakeFirstOrThrow();
    return { team, membership: id };
  };
  const lastInvite = async () => {
    const rows = tablesOf(instance.database).selectFrom('crm_invites').select('id');
    return String((await rows.orderBy('id', 'desc').executeTakeFirst())?.id);
  };
  const fields: Readonly<Record<FormName, (own: Person) => Promise<Record<string, string>>>> = {
    '/setup/login': async () => ({ ...administratorOf(acme) }),
    '/setup/logout': async () => ({}),
    '/setup/invite/': async () => ({}),
    '/setup/reset/': async () => ({}),
    '/setup/me/end-session': async (own) => ({ id: (await logIn(instance, own)).session }),
    '/setup/me/logout-everywhere': async () => ({}),
    '/setup/me/name': async () => ({ name: 'Ada Lovelace' }),
    '/setup/me/language': async () => ({ language: 'en' }),
    '/setup/me/password': async ({ password }) => ({
      current: password,
      new: 'another password',
      again: 'another password',
    }),
    '/setup/o/acme/keys/create': async () => ({
      name: 'k',
      profile: await optionOf(admin, `${keys}/create`, 'read-only'),
      expires: '30',
    }),
    '/setup/o/acme/keys/rotate': async () => ({ id: (await acme.makeKey()).id, overlap: '1h' }),
    '/setup/o/acme/keys/revoke': async () => ({ id: (await acme.makeKey()).id }),
    '/setup/o/acme/members/invite': guest,
    '/setup/o/acme/members/cancel': async () => {
      await invitation();
      return { id: await lastInvite() };
    },
    '/setup/o/acme/members/change': async () => ({
      id: await newMember(),
      profile: await optionOf(admin, `${members}/invite`, 'read-only'),
    }),
    '/setup/o/acme/members/remove': async () => ({ id: await newMember() }),
    '/setup/o/acme/members/reset': async () => ({ id: await newMember() }),
    '/setup/o/acme/profiles/create': async () => ({ name: fresh('profile') }),
    '/setup/o/acme/profiles/change': async () => ({ id: await newProfile(), grant: 'leads:list' }),
    '/setup/o/acme/profiles/delete': async () => ({ id: await newProfile() }),
    '/setup/o/acme/profiles/view-as': async () => ({ id: await newProfile('leads:list') }),
    '/setup/o/acme/teams/create': async () => ({ name: fresh('team') }),
    '/setup/o/acme/teams/rename': async () => ({ id: (await newTeam()).team, name: fresh('team') }),
    '/setup/o/acme/teams/delete': async () => ({ id: (await newTeam()).team }),
    '/setup/o/acme/teams/add': async () => ({ team: (await newTeam()).team, member: await newMember() }),
    '/setup/o/acme/teams/remove': async () => ({ id: (await newTeam()).membership }),
    '/setup/o/acme/integrations/add': async () => ({
      provider: 'telegram',
      name: fresh('bot'),
      secret: fresh('secret'),
    }),
    '/setup/o/acme/integrations/switch': async () => ({ ...(await newIntegration()), to: 'off' }),
    '/setup/o/acme/integrations/secrets': async () => ({
      ...(await newIntegration()),
      secret: fresh('secret'),
    }),
    '/setup/o/acme/integrations/remove': newIntegration,
    '/setup/o/acme/events/add': async () => ({
      url: `https://events.example/${fresh('hook')}`,
      resource: 'leads',
      action: 'create',
      profile: await optionOf(admin, `${keys}/create`, 'read-only'),
    }),
    '/setup/o/acme/events/switch': async () => ({ id: await newSubscription(), to: 'off' }),
    '/setup/o/acme/events/test': async () => ({ id: await newSubscription() }),
    '/setup/o/acme/events/rotate': async () => ({ id: await newSubscription() }),
    '/setup/o/acme/events/remove': async () => ({ id: await newSubscription() }),
    '/setup/o/acme/deliveries/replay-all': async () => ({}),
    '/setup/o/acme/events/replay-all': async () => ({}),
    '/setup/o/acme/events/replay': async () => ({ id: await newEventDelivery() }),
    '/setup/o/acme/deliveries/replay': async () => ({ id: (await newDelivery()).item }),
  };
  const ready: Screens['ready'] = async (form, own) => {
    if (form === '/setup/reset/') {
      const answer = await admin.submit(members, `${members}/reset`, { id: await newMember() });
      const path = new URL(shownIn(answer, 'reset-link')).pathname;
      const password = { new: 'one of their own', again: 'one of their own' };
      return { page: path, action: path, fields: { code: shownIn(answer, 'reset-code'), ...password } };
    }
    if (form === '/setup/invite/') {
      const { path, code } = await invitation();
      return { page: path, action: path, fields: { code, password: 'one of their own' } };
    }
    const page =
      sections.find((each) => form.startsWith(`${each}/`)) ?? (form === '/setup/login' ? form : '/setup/me');
    return { page, action: form, fields: await fields[form](own) };
  };
  return {
    acme,
    admin,
    administrator,
    invitation,
    newProfile,
    newTeam,
    newDelivery,
    newEventDelivery,
    settled,
    ready,
  };
}

/** Every form by its action URL. An invitation's URL ends with its ID. */
export const formNames = [
  '/setup/login',
  '/setup/logout',
  '/setup/invite/',
  '/setup/reset/',
  '/setup/me/end-session',
  '/setup/me/logout-everywhere',
  '/setup/me/name',
  '/setup/me/language',
  '/setup/me/password',
  '/setup/o/acme/keys/create',
  '/setup/o/acme/keys/rotate',
  '/setup/o/acme/keys/revoke',
  '/setup/o/acme/members/invite',
  '/setup/o/acme/members/cancel',
  '/setup/o/acme/members/change',
  '/setup/o/acme/members/remove',
  '/setup/o/acme/members/reset',
  '/setup/o/acme/profiles/create',
  '/setup/o/acme/profiles/change',
  '/setup/o/acme/profiles/delete',
  '/setup/o/acme/profiles/view-as',
  '/setup/o/acme/teams/create',
  '/setup/o/acme/teams/rename',
  '/setup/o/acme/teams/delete',
  '/setup/o/acme/teams/add',
  '/setup/o/acme/teams/remove',
  '/setup/o/acme/integrations/add',
  '/setup/o/acme/integrations/switch',
  '/setup/o/acme/integrations/secrets',
  '/setup/o/acme/integrations/remove',
  '/setup/o/acme/deliveries/replay',
  '/setup/o/acme/events/add',
  '/setup/o/acme/events/switch',
  '/setup/o/acme/events/test',
  '/setup/o/acme/events/rotate',
  '/setup/o/acme/events/remove',
  '/setup/o/acme/events/replay',
  '/setup/o/acme/deliveries/replay-all',
  '/setup/o/acme/events/replay-all',
] as const;
export type FormName = (typeof formNames)[number];
/** Returns whether a form is for users who are not logged in. */
export const isOpen = (form: FormName): boolean => /^\/setup\/(login$|invite\/|reset\/)/.test(form);
