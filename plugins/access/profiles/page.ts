import type { FastifyInstance } from 'fastify';
import type { Resource } from '../../../engine/compile/index.ts';
import type { Database } from '../../../engine/database/index.ts';
import { recordChanges } from '../../../engine/effects/index.ts';
import { allows, eventsObject, membersObject, wildcard } from '../../../engine/records/index.ts';
import { viewAsCookie } from '../../admin-ui/records/index.ts';
import {
  addObjects,
  defineObject,
  field,
  fields,
  type Input,
  joinTexts,
  type Language,
  nameInput,
  type ObjectContext,
  ownWords,
  type Text,
  type TextIn,
  TranslatedError,
  textIn,
} from '../../admin-ui/shell/index.ts';
import { profileGrants } from '../identity/index.ts';
import {
  describeActions,
  describeGrants,
  extentOf,
  type Grant,
  type GrantableObject,
  grantableObjects,
  grantIssue,
  isGranted,
  isImplied,
  parseGrant,
  scopesFor,
  storedGrant,
} from './grants.ts';
import {
  assertGrantable,
  changeProfile,
  createProfile,
  deleteProfile,
  missingProfile,
  type Profile,
  profileRows,
} from './profiles.ts';
import { profilesTexts } from './texts/index.ts';

interface ProfileServices {
  readonly database: Database;
  readonly resources: readonly Resource[];
}

const { later } = profilesTexts;

const labels: Readonly<Record<string, TextIn>> = {
  [wildcard]: later('allObjectsRow'),
  [eventsObject]: later('eventsRow'),
  [membersObject]: later('membersRow'),
};

/** Returns the label of a row of the grants matrix. */
const labelOf = ({ name }: GrantableObject, language: Language, scope?: string): string => {
  const t = profilesTexts(language);
  if (scope === undefined) return labels[name]?.(language) ?? name;
  return t('onlyScope', { object: name === wildcard ? t('allObjects') : name, scope });
};

/**
 * Renders the grants matrix. Each scope has its own row, in which actions are granted on the scope's records. Grants on
 * everything also appear in the rows of resources and cannot be removed there. They do not apply to events and members.
 */
function matrix(
  { name: profileName, grants }: Profile,
  submittedGrants: readonly string[],
  { services: { resources }, language }: ObjectContext<ProfileServices>,
): Input<Text> {
  const t = profilesTexts(language);
  const objects = grantableObjects(resources);
  const draft = submittedGrants.length === 0 ? grants : submittedGrants;
  const actions = [...new Set(objects.flatMap((object) => object.actions))];
  const row = (object: GrantableObject, scope?: string) => ({
    label: labelOf(object, language, scope),
    cells: actions.map((action) => {
      if (!object.actions.includes(action)) return {};
      if (scope !== undefined && !scopesFor(object, action).includes(scope)) return {};
      const fixed = isImplied(draft, object, action, scope);
      const suffix = scope === undefined ? '' : `:${scope}`;
      const names = { profile: profileName, action, object: labelOf(object, language, scope) };
      return {
        value: `${object.name}:${action}${suffix}`,
        name: fixed ? t('impliedGrant', names) : t('grant', names),
        granted: isGranted(draft, object, action, scope),
        fixed,
      };
    }),
  });
  return {
    kind: 'grants',
    name: 'grant',
    label: t('grantsFor', { profile: profileName }),
    actions,
    objects: objects.flatMap((object) => [row(object), ...object.scopes.map((scope) => row(object, scope))]),
  };
}

/** Removes scopes from actions that are also granted on all records. */
const withoutRedundantScopes = (
  texts: readonly string[],
  objects: readonly GrantableObject[],
): readonly string[] =>
  texts.filter((text) => {
    const { object: name, action } = storedGrant(text);
    const [unscoped, scope] = action.split(':');
    const object = objects.find((candidate) => candidate.name === name);
    const known = object?.actions.find((candidate) => candidate === unscoped);
    return (
      scope === undefined ||
      object === undefined ||
      known === undefined ||
      extentOf(texts, object, known) !== 'all'
    );
  });

/** Returns the introduction to the matrix, which lists grants naming objects, actions or scopes that do not exist. */
function introOf({ grants }: Profile, { services, language }: ObjectContext<ProfileServices>): Text {
  const t = profilesTexts(language);
  const objects = grantableObjects(services.resources);
  const invalid = grants.filter((text) => grantIssue(storedGrant(text), objects) !== undefined);
  return joinTexts([
    t('matrixIntro'),
    ...(objects.some(({ scopes }) => scopes.length > 0) ? [t('scopesIntro')] : []),
    ...(invalid.length > 0 ? [t('invalidGrants', { grants: invalid.join(', ') })] : []),
  ]);
}

/** Returns the link to the page on which an administrator starts to view records as a profile. */
const viewLink = ({ urlOf, language }: ObjectContext<ProfileServices>, { id }: Profile) => ({
  label: profilesTexts(language)('viewAsThis'),
  href: `${urlOf('view-as')}?id=${id}`,
});

const isCustom = ({ builtIn }: Profile): boolean => !builtIn;

/** Profiles. A profile is edited as a matrix of objects and actions. */
const profiles = defineObject<Profile, ProfileServices>({
  name: 'profiles',
  title: later('profiles'),
  group: 'Access',
  icon: 'shield-check',
  plural: later('rows'),
  source: profileRows,
  missing: () => missingProfile,
  nameOf: ({ name }) => name,
  columns: [
    {
      title: later('name'),
      cell: ({ id, name, builtIn }, { urlOf }) => ({
        text: name,
        href: `${urlOf(builtIn ? 'built-in' : 'change')}?id=${id}`,
      }),
      by: 'lower(p.name)',
    },
    {
      title: later('grants'),
      cell: ({ grants }, { services, language }) => ({
        text: describeGrants(grants, grantableObjects(services.resources), language),
      }),
    },
    {
      title: later('kind'),
      cell: ({ builtIn }, { language }) => ({
        text: builtIn ? profilesTexts(language)('builtIn') : profilesTexts(language)('custom'),
      }),
    },
  ],
  empty: later('none'),
  pages: {
    'built-in': async (context, profile) => ({
      kind: 'record',
      title: profile.name,
      primary: viewLink(context, profile),
      intro: profilesTexts(context.language)('builtInIntro'),
      values: grantableObjects(context.services.resources)
        .filter(({ name }) => name !== wildcard)
        .map((object) => ({
          label: textIn(object.label, context.language),
          text:
            describeActions(profile.grants, object, context.language) ||
            profilesTexts(context.language)('nothing'),
        })),
    }),
  },
  actions: {
    create: {
      label: later('create'),
      isOnce: true,
      page: ({ language }, form) => {
        const t = profilesTexts(language);
        return {
          kind: 'form',
          title: t('createAProfile'),
          inputs: [nameInput(t('name'), field(form, 'name'), t('nameHelp'))],
          submit: t('create'),
        };
      },
      done: { 'profile-created': later('created') },
      run: async ({ organization, actor, transact }, form) => {
        const name = field(form, 'name');
        const id = await transact((tables) => createProfile(tables, actor, organization, name, []));
        return { done: 'profile-created', name: name.trim(), id };
      },
    },
  },
  rowActions: {
    change: {
      label: later('change'),
      accessibleName: (name) => later('changeName', { name }),
      isOffered: isCustom,
      page: (context, form, profile) => {
        const t = profilesTexts(context.language);
        return {
          kind: 'form',
          title: ownWords(profile.name),
          primary: viewLink(context, profile),
          intro: introOf(profile, context),
          inputs: [matrix(profile, fields(form, 'grant'), context)],
          submit: t('save'),
          danger: { label: t('deleteProfile'), href: `${context.urlOf('delete')}?id=${profile.id}` },
        };
      },
      done: { 'profile-changed': later('changed') },
      run: async (context, form, { id }) => {
        const { organization, actor, transact, services } = context;
        const texts = fields(form, 'grant');
        if (texts.length > 1000) throw new TranslatedError(later('tooManyGrants'));
        const objects = grantableObjects(services.resources);
        const grants = withoutRedundantScopes(texts, objects).map((text): Grant => parseGrant(text, objects));
        assertGrantable(
          context,
          grants.flatMap(({ object, actions }) => actions.map((action) => ({ object, action }))),
        );
        await transact((tables) => changeProfile(tables, actor, organization, id, grants));
      },
    },
    'view-as': {
      label: later('viewAsThis'),
      accessibleName: (name) => later('viewAs', { name }),
      page: ({ language }, _form, { name }) => {
        const t = profilesTexts(language);
        return {
          kind: 'confirm',
          title: t('viewAsQuestion', { name }),
          consequence: t('viewAsConsequence'),
          submit: t('viewRecords'),
          isSafe: true,
        };
      },
      run: async (context, _form, { id }) => {
        const { organization, slug, actor, transact, services, tables } = context;
        const grants = await profileGrants(tables, organization, id);
        const first = services.resources.find(({ definition }) => allows(grants, definition, 'list'));
        if (first === undefined) throw new TranslatedError(later('listsNothing'));
        await transact((transaction) =>
          recordChanges(transaction, actor, {
            organization,
            action: 'view as',
            object: 'profile',
            objectId: id,
          }),
        );
        return { to: `/setup/o/${slug}/data/${first.name}`, cookie: viewAsCookie(context, id) };
      },
    },
    delete: {
      label: later('delete'),
      accessibleName: (name) => later('deleteName', { name }),
      isOffered: isCustom,
      page: ({ language }, _form, { name }) => {
        const t = profilesTexts(language);
        return {
          kind: 'confirm',
          title: t('deleteQuestion', { name }),
          consequence: t('deleteConsequence'),
          submit: t('deleteProfile'),
        };
      },
      done: { 'profile-deleted': later('deleted') },
      run: ({ organization, actor, transact }, _form, { id }) =>
        transact((tables) => deleteProfile(tables, actor, organization, id)),
    },
  },
});

/** Registers the pages for profiles. */
export const profilePages = (app: FastifyInstance, services: ProfileServices): void =>
  addObjects(app, services, [profiles]);
