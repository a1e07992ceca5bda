// No oracle: whatever a caller requests, the responses are identical in two organizations that differ only in what the caller's
// grants hide. Definitions, grants, records and requests are random; a model in test/support/oracle-world.ts decides what is hidden.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { diceOf } from '../support/dice.ts';
import { type Driver, drivers, type Instance, startInstance } from '../support/instance.ts';
import {
  feedRequests,
  type IdOf,
  kindsOf,
  type RandomRequest,
  randomRead,
  randomWrite,
  requiredKinds,
} from '../support/oracle-requests.ts';
import {
  assertModel,
  awaitFeed,
  createSides,
  definitionsWith,
  exchangeWith,
  type People,
  preparePeople,
  type Side,
} from '../support/oracle-sides.ts';
import {
  type CallerRights,
  type Dice,
  keptThings,
  pick,
  randomRights,
  randomWorld,
  type Scope,
  sightOf,
  type Thing,
  thingScope,
  twinOf,
  visibleIds,
} from '../support/oracle-world.ts';
import { sourcesWith } from '../support/sources.ts';

/** Seeds of the random definitions. If both drivers are tested, each of them gets one, because a definition takes minutes. */
const seeds = [1, 2];
const callersPerSeed = 10;
const requestsPerCaller = 505;
/** Number of requests that are sent at the same time, unless they write. */
const concurrentReads = 6;

/** Numbers of requests by kind. */
type Counts = Map<string, { readonly sent: number; readonly accepted: number }>;

const counts: Counts = new Map();
for (const [index, driver] of drivers.entries()) {
  const own =
    drivers.length === 1 ? seeds : seeds.filter((_, position) => position % drivers.length === index);
  describe(`no oracle (${driver})`, () => {
    for (const seed of own) describe(`definition ${seed}`, () => testDefinition(driver, seed));
  });
}
test('each kind of request was sent and accepted', (context) => {
  for (const [kind, { sent, accepted }] of counts)
    context.diagnostic(`${kind}: ${sent} sent, ${accepted} accepted`);
  assert.deepEqual(
    requiredKinds.filter((kind) => (counts.get(kind)?.accepted ?? 0) === 0),
    [],
  );
});

/** Sends random requests to definitions with random scopes. */
function testDefinition(driver: Driver, seed: number): void {
  const dice = diceOf(seed * 7919);
  const scopes = Object.fromEntries(
    ['first', 'second', 'third', 'fourth', 'fifth'].map((name) => [name, thingScope(dice)]),
  );
  let instance: Instance;
  let people: People;
  before(async () => {
    instance = await startInstance(driver, {
      sources: await sourcesWith(...definitionsWith(scopes)),
      environment: { LOG_LEVEL: 'warn' },
    });
    people = await preparePeople(instance);
  });
  after(() => instance.close());

  const texts = Object.values(scopes).map(({ text }) => text);
  test(`responses do not depend on hidden records: ${texts.join(' | ')}`, async () => {
    // The callers are in different organizations.
    const callers = Array.from({ length: callersPerSeed }, (_, caller) =>
      testCaller(instance, people, { caller, scopes, dice: diceOf(seed * 7919 + caller + 1) }),
    );
    for (const result of await Promise.allSettled(callers))
      if (result.status === 'rejected') throw result.reason;
  });
}

/** A caller with random rights. */
interface RandomCaller {
  readonly caller: number;
  readonly scopes: Readonly<Record<string, Scope<Thing>>>;
  readonly dice: Dice;
}

/** Returns the parts of two texts around their first difference, because messages of assertions are truncated; empty if they are equal. */
function firstDifference(one: string, two: string): string {
  const index = one.split('').findIndex((character, position) => character !== two[position]);
  if (one === two) return '';
  const start = Math.max(0, (index < 0 ? one.length : index) - 300);
  return [one, two].map((text) => `\n… ${text.slice(start, start + 900)}`).join('');
}

/** Sends random requests by one caller to two organizations. */
async function testCaller(
  instance: Instance,
  people: People,
  { caller, scopes, dice }: RandomCaller,
): Promise<void> {
  const rightsOf = () => randomRights(dice, Object.keys(scopes));
  // Every third caller is a key on behalf of a member.
  const rights: CallerRights = caller % 3 === 2 ? [rightsOf(), rightsOf()] : [rightsOf()];
  const sight = sightOf(rights, scopes);
  const world = randomWorld(dice);
  const worlds = [
    [`one-${caller}`, world],
    [`two-${caller}`, twinOf(dice, world, sight)],
  ] as const;
  const [first, second] = (await createSides(instance, people, worlds, rights)) as [Side, Side];
  await assertModel(first, world, rights, sight);
  const visible = visibleIds(world, sight);
  const tags = new Map<string, string>();
  const written = {
    things: world.things.filter((thing) => sight.can('read', thing)),
    hiddenCodes: keptThings(world, sight.isHiddenThing).flatMap(({ trashed, code }) =>
      trashed ? [] : [code],
    ),
    tags,
  };
  // Other IDs belong to hidden and missing records.
  const idOf: IdOf = (name) =>
    visible[name].length > 0 && dice() < 0.8
      ? pick(dice, visible[name])
      : 1 + Math.floor(dice() * (world[name].length + 3));
  let [sent, accepted] = [0, 0];
  /** Sends requests at the same time, and compares the responses. */
  const compare = async (requests: readonly ((side: Side) => RandomRequest)[]) => {
    const pairs = await Promise.all(
      requests.map(async (requestOf) => {
        const [request, other] = [requestOf(first), requestOf(second)];
        const [answer, twin] = await Promise.all([exchangeWith(first, request), exchangeWith(second, other)]);
        return { request, answer, twin };
      }),
    );
    for (const { request, answer, twin } of pairs) {
      const comparison = answer.comparison();
      const other = twin.comparison();
      const circumstances = `${JSON.stringify(request)} by ${JSON.stringify(rights)}${firstDifference(other.text, comparison.text)}`;
      assert.deepEqual(other, comparison, circumstances);
      if (request.method === 'GET' && answer.tag !== null) tags.set(request.path, answer.tag);
      const isAccepted = comparison.status < 400;
      accepted += Number(isAccepted);
      sent++;
      for (const kind of kindsOf(request)) {
        const number = counts.get(kind) ?? { sent: 0, accepted: 0 };
        counts.set(kind, { sent: number.sent + 2, accepted: number.accepted + 2 * Number(isAccepted) });
      }
      if (isAccepted && request.headers?.['idempotency-key'] !== undefined) repeatable.push(request);
    }
  };
  const repeatable: RandomRequest[] = [];
  const read = () => {
    const follows = dice() < 0.1 && first.next !== undefined && second.next !== undefined;
    const request = randomRead(dice, idOf, tags);
    return ({ next = '' }: Side): RandomRequest => (follows ? { method: 'GET', path: next } : request);
  };
  const write = () => {
    const request =
      repeatable.length > 0 && dice() < 0.05
        ? { ...pick(dice, repeatable), isRepeated: true as const }
        : randomWrite(dice, idOf, written, sent);
    return () => request;
  };
  while (sent < requestsPerCaller) {
    const isWriting = sent > requestsPerCaller / 3;
    await compare(
      isWriting && dice() < 0.8
        ? [write()]
        : Array.from({ length: isWriting ? concurrentReads / 2 : concurrentReads }, read),
    );
  }
  await Promise.all([first, second].map(awaitFeed));
  const at = dice();
  const positionIn = ({ positions }: Side) => positions[Math.floor(at * positions.length)] ?? 'now';
  for (const index of feedRequests('').keys())
    await compare([(side) => feedRequests(positionIn(side))[index] ?? assert.fail()]);
  assert.ok(accepted > requestsPerCaller / 4, `only ${accepted} requests succeeded`);
}
