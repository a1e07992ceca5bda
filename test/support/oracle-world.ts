// The reference model of test/properties/oracle.test.ts: records, a caller's rights, and what the caller can see.
import type { diceOf } from './dice.ts';

export type Dice = ReturnType<typeof diceOf>;

export const pick = <Item>(dice: Dice, items: readonly Item[]): Item =>
  items[Math.floor(dice() * items.length)] as Item;
export const some = <Item>(dice: Dice, items: readonly Item[], share = 0.5): Item[] =>
  items.filter(() => dice() < share);

export const kinds = ['alpha', 'beta', 'gamma', ''];
export const stages = ['new', 'open', 'done'];
export const words = ['red', 'green', 'blue', 'Red'];
export const thingCount = 30;
export const groupCount = 8;
export const tagCount = 6;

/** A record's owner: the caller, another member, or none. */
type Owner = 'me' | 'other' | null;

/** A record to which things can refer. */
export interface Target {
  readonly id: number;
  readonly owner: Owner;
  readonly title: string;
  readonly open: boolean;
}

/** The resources to which things can refer. */
export type TargetName = 'groups' | 'tags';

export interface Thing {
  readonly id: number;
  readonly owner: Owner;
  readonly name: string;
  readonly kind: string;
  readonly amount: number | null;
  readonly price: string;
  readonly flag: boolean;
  readonly code: string;
  readonly secret: string;
  /** The group of which the thing is a child. */
  readonly parent: number | null;
  /** The tags in a list of references, in ascending order. */
  readonly tags: readonly number[];
  /** The record in a reference to one of several resources. */
  readonly subject: { readonly resource: TargetName; readonly id: number } | null;
  /** The group that cannot be deleted while the thing exists. */
  readonly keeper: number | null;
  /** The tag with which the thing is deleted. Null if the thing has a keeper, so that no other delete ends its protection. */
  readonly base: number | null;
  readonly stage: string;
  readonly label: string | null;
  /** Value of a custom field. */
  readonly score: number | null;
  readonly trashed: boolean;
}

/** All records of an organization. */
export interface World extends Readonly<Record<TargetName, readonly Target[]>> {
  readonly things: readonly Thing[];
}

/** A scope's condition as an expression and as the model's predicate. */
export interface Scope<Item> {
  readonly text: string;
  readonly has: (item: Item) => boolean;
}

/** Returns a random condition. A comparison with null is never true, also if it is negated. */
export function thingScope(dice: Dice, depth = 0): Scope<Thing> {
  const number = Math.floor(dice() * 10) - 3;
  const [kind, stage] = [pick(dice, kinds), pick(dice, stages)];
  const simple: readonly Scope<Thing>[] = [
    { text: 'owner_id == me', has: ({ owner }) => owner === 'me' },
    { text: 'owner_id != me', has: ({ owner }) => owner === 'other' },
    { text: `kind == "${kind}"`, has: (thing) => thing.kind === kind },
    { text: `kind in ["alpha", "${kind}"]`, has: (thing) => ['alpha', kind].includes(thing.kind) },
    { text: `amount > ${number}`, has: ({ amount }) => amount !== null && amount > number },
    { text: `!(amount > ${number})`, has: ({ amount }) => amount !== null && amount <= number },
    { text: `doubled > ${number}`, has: ({ amount }) => amount !== null && amount * 2 > number },
    { text: 'amount == null', has: ({ amount }) => amount === null },
    { text: 'price <= 5.25', has: ({ price }) => Number(price) <= 5.25 },
    { text: `stage == "${stage}"`, has: (thing) => thing.stage === stage },
    { text: 'flag', has: ({ flag }) => flag },
    { text: 'flag == false', has: ({ flag }) => !flag },
  ];
  if (depth > 1 || dice() < 0.5) return pick(dice, simple);
  const [left, right] = [thingScope(dice, depth + 1), thingScope(dice, depth + 1)];
  return dice() < 0.5
    ? { text: `(${left.text}) && (${right.text})`, has: (thing) => left.has(thing) && right.has(thing) }
    : { text: `(${left.text}) || (${right.text})`, has: (thing) => left.has(thing) || right.has(thing) };
}

export const targetScopes: Readonly<Record<string, Scope<Target>>> = {
  own: { text: 'owner_id == me', has: ({ owner }) => owner === 'me' },
  open: { text: 'open == true', has: ({ open }) => open },
};

const actions = ['list', 'read', 'create', 'update', 'delete', 'restore'] as const;
type Action = (typeof actions)[number];
/** Returns the actions on a resource. Only things have a trash. */
const actionsOn = (resource: string): readonly Action[] =>
  resource === 'things' ? actions : actions.filter((action) => action !== 'restore');
/** The scopes in which an action is granted: all records, none, or the records of some scopes. */
type Access = 'all' | readonly string[];
type ByAction = Readonly<Record<Action, Access>>;

/** A caller's rights. */
export interface Rights extends Readonly<Record<TargetName, ByAction>> {
  readonly things: ByAction;
  readonly secret: { readonly read: boolean; readonly update: boolean };
}

/** Returns random rights, which always hide some things or some of the records to which things refer. */
export function randomRights(dice: Dice, scopeNames: readonly string[]): Rights {
  const access = (names: readonly string[]): Access => {
    const throwOf = dice();
    if (throwOf < 0.35) return 'all';
    return throwOf < 0.42 ? [] : [pick(dice, names), ...some(dice, names, 0.3)];
  };
  const rights = (names: readonly string[]) =>
    Object.fromEntries(actions.map((action) => [action, access(names)])) as ByAction;
  const seesAllThings = dice() < 0.25;
  const visible = (): Access => (seesAllThings ? 'all' : [pick(dice, scopeNames)]);
  const targetNames = Object.keys(targetScopes);
  const targets = (): ByAction => {
    const [random, limit] = [rights(targetNames), [pick(dice, targetNames)]];
    return seesAllThings ? { ...random, list: limit, read: limit, update: limit, delete: limit } : random;
  };
  return {
    things: { ...rights(scopeNames), list: visible(), read: visible() },
    groups: targets(),
    tags: targets(),
    secret: { read: dice() < 0.3, update: dice() < 0.3 },
  };
}

/**
 * The rights of a caller's profile. A key on behalf of a member also has the rights of the member's profile, and can do only
 * what both allow.
 */
export type CallerRights = readonly [Rights, ...Rights[]];

/** Returns the grants as stored. */
export const storedGrants = ({ things, groups, tags, secret }: Rights) => [
  ...Object.entries({ things, groups, tags }).flatMap(([object, byAction]) =>
    actionsOn(object).flatMap((action) => {
      const access = byAction[action];
      const texts = access === 'all' ? [action] : access.map((scope) => `${action}:${scope}`);
      return texts.map((text) => ({ object, action: text }));
    }),
  ),
  ...(['read', 'update'] as const).flatMap((action) =>
    secret[action] ? [{ object: 'things.hush', action }] : [],
  ),
];

/** Returns whether a caller can perform an action on some of a resource's records. */
export const allowsSome = (rights: CallerRights, resource: 'things' | TargetName, action: Action): boolean =>
  rights.every((each) => each[resource][action].length > 0);

const isIn = <Item>(access: Access, scopes: Readonly<Record<string, Scope<Item>>>, item: Item): boolean =>
  access === 'all' || access.some((name) => scopes[name]?.has(item) === true);

/** Returns what a caller can see and do. */
export function sightOf(rights: CallerRights, scopes: Readonly<Record<string, Scope<Thing>>>) {
  const can = (action: Action, thing: Thing) =>
    rights.every(({ things }) => isIn(things[action], scopes, thing));
  const canTarget = (name: TargetName, action: Action, target: Target) =>
    rights.every((each) => isIn(each[name][action], targetScopes, target));
  // Without any grant to read the records, joined names and references are visible, as in the contract.
  const isReferenceVisible = (name: TargetName, target: Target) =>
    rights.every(({ [name]: { read } }) => read.length === 0 || isIn(read, targetScopes, target));
  return {
    can,
    canTarget,
    isReferenceVisible,
    canReadSecret: rights.every(({ secret }) => secret.read),
    // Updates, deletes and restores do not reach records that the caller can neither list nor read.
    isHiddenThing: (thing: Thing) => !can('list', thing) && !can('read', thing),
    isHiddenTarget: (name: TargetName, target: Target) =>
      !isReferenceVisible(name, target) &&
      actionsOn(name).every((action) => action === 'create' || !canTarget(name, action, target)),
  };
}
export type Sight = ReturnType<typeof sightOf>;

/** Returns the IDs of the records that the caller can read. */
export const visibleIds = ({ things, groups, tags }: World, { can, canTarget }: Sight) => ({
  things: idsOf(things.filter((thing) => can('read', thing))),
  groups: idsOf(groups.filter((group) => canTarget('groups', 'read', group))),
  tags: idsOf(tags.filter((tag) => canTarget('tags', 'read', tag))),
});

const randomTarget = (dice: Dice, id: number): Target => ({
  id,
  owner: pick(dice, ['me', 'other', null]),
  title: `${pick(dice, words)} ${Math.floor(dice() * 100)}`,
  open: dice() < 0.5,
});

type Targets = Pick<World, TargetName>;

/** Returns a random reference to one of the records. */
const randomSubject = (dice: Dice, targets: Targets): Thing['subject'] => {
  const resource = pick(dice, ['groups', 'tags'] as const);
  const [target] = targets[resource].length === 0 || dice() < 0.3 ? [] : [pick(dice, targets[resource])];
  return target === undefined ? null : { resource, id: target.id };
};

const idsOf = (records: readonly { readonly id: number }[]): number[] => records.map(({ id }) => id);

const randomThing = (dice: Dice, id: number, targets: Targets): Thing => {
  const one = (name: TargetName, share: number) =>
    dice() < share ? (pick(dice, idsOf(targets[name])) ?? null) : null;
  const name = `${pick(dice, words)} ${Math.floor(dice() * 100)}`;
  const [flag, keeper] = [dice() < 0.5, one('groups', 0.15)];
  return {
    id,
    name,
    flag,
    keeper,
    base: keeper === null ? one('tags', 0.3) : null,
    owner: pick(dice, ['me', 'other', null]),
    kind: pick(dice, kinds),
    amount: dice() < 0.2 ? null : Math.floor(dice() * (flag ? 12 : 10)) - 4,
    price: (Math.floor(dice() * 1000) / 100).toFixed(2),
    code: `code-${id}`,
    secret: `secret ${Math.floor(dice() * 1000)}`,
    parent: one('groups', 0.7),
    tags: dice() < 0.3 ? [] : some(dice, idsOf(targets.tags), 0.4),
    subject: randomSubject(dice, targets),
    stage: pick(dice, ['new', ...stages]),
    label: dice() < 0.5 ? null : name,
    score: dice() < 0.3 ? null : Math.floor(dice() * 10),
    trashed: dice() < 0.15,
  };
};

const listOf = <Item>(length: number, item: (id: number) => Item): Item[] =>
  Array.from({ length }, (_, index) => item(index + 1));

/** Returns random records. */
export function randomWorld(dice: Dice): World {
  const targets = {
    groups: listOf(groupCount, (id) => randomTarget(dice, id)),
    tags: listOf(tagCount, (id) => randomTarget(dice, id)),
  };
  return { ...targets, things: listOf(thingCount, (id) => randomThing(dice, id, targets)) };
}

/** Returns a world that differs from another one only in what the caller cannot see. */
export function twinOf(
  dice: Dice,
  world: World,
  { isHiddenThing, isHiddenTarget, canReadSecret }: Sight,
): World {
  const again = <Item>(isHidden: (item: Item) => boolean, create: () => Item): Item | undefined =>
    Array.from({ length: 20 }, create).find(isHidden);
  const visibleThings = world.things.filter((thing) => !isHiddenThing(thing));
  const twinTargets = (name: TargetName): readonly Target[] => {
    const isHidden = (target: Target) => isHiddenTarget(name, target);
    // The values of single references are visible.
    const referenced = new Set(
      visibleThings.flatMap(({ parent, keeper, base, subject }) => [
        ...(name === 'groups' ? [parent, keeper] : [base]),
        ...(subject?.resource === name ? [subject.id] : []),
      ]),
    );
    return world[name].flatMap((target) => {
      if (!isHidden(target)) return [target];
      if (!referenced.has(target.id) && dice() < 0.3) return [];
      return [again(isHidden, () => randomTarget(dice, target.id)) ?? target];
    });
  };
  const targets = { groups: twinTargets('groups'), tags: twinTargets('tags') };
  const [hiddenTags, visibleTags] = [true, false].map((isHidden) =>
    targets.tags.filter((tag) => isHiddenTarget('tags', tag) === isHidden).map(({ id }) => id),
  ) as [number[], number[]];
  const kept = keptThings(world, isHiddenThing);
  const twinThings = world.things.flatMap((thing) => {
    if (isHiddenThing(thing)) {
      const isKept = kept.includes(thing);
      if (!isKept && dice() < 0.3) return [];
      const { keeper, trashed } = thing;
      const create = () => ({
        ...randomThing(dice, thing.id, targets),
        ...(isKept ? { keeper, trashed, base: null } : { keeper: null }),
      });
      return [withoutMissing(again(isHiddenThing, create) ?? thing, targets)];
    }
    const tags = [...thing.tags.filter((id) => visibleTags.includes(id)), ...some(dice, hiddenTags)];
    const hush = canReadSecret ? thing.secret : `other ${Math.floor(dice() * 1000)}`;
    return [{ ...thing, tags: tags.sort((a, b) => a - b), secret: hush }];
  });
  const additional = listOf(5, (index) =>
    again(isHiddenThing, () => {
      const thing = randomThing(dice, thingCount + index, targets);
      const keeper = kept.length > 0 ? pick(dice, kept).keeper : null;
      return withoutMissing(
        keeper === null ? { ...thing, keeper } : { ...thing, keeper, base: null },
        targets,
      );
    }),
  );
  return { ...targets, things: [...twinThings, ...additional.filter((thing) => thing !== undefined)] };
}

/**
 * Returns the hidden things that protect a group. They exist in both worlds, because the existence of a rejected delete and of
 * a conflict is not hidden.
 */
export const keptThings = (
  { things }: Pick<World, 'things'>,
  isHiddenThing: Sight['isHiddenThing'],
): readonly Thing[] => things.filter((thing) => thing.keeper !== null && isHiddenThing(thing));

/** Returns a thing without its references to missing records. */
function withoutMissing(thing: Thing, targets: Targets): Thing {
  const { parent, subject, keeper, base } = thing;
  const exists = ({ resource, id }: NonNullable<Thing['subject']>) => idsOf(targets[resource]).includes(id);
  const existing = (resource: TargetName, id: number | null) =>
    id !== null && exists({ resource, id }) ? id : null;
  return {
    ...thing,
    tags: thing.tags.filter((id) => idsOf(targets.tags).includes(id)),
    parent: existing('groups', parent),
    keeper: existing('groups', keeper),
    base: existing('tags', base),
    subject: subject !== null && exists(subject) ? subject : null,
  };
}
