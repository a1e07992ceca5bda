// Sends the same body as POST and PUT. Both must accept or reject it.
import assert from 'node:assert/strict';
import type { ResourceDefinition } from '../../engine/definition/definition.ts';
import type { Answer, Call, Instance } from './instance.ts';
import { rowHashes } from './reading.ts';
import { type Pair, pathOf } from './records.ts';
import { assertErrorShape } from './scenario.ts';

/** Writes by organization alpha. */
export interface Writes {
  /** Sends a POST request, and a PUT request for alpha's record of the resource. */
  readonly both: (
    definition: ResourceDefinition,
    call: Call,
  ) => Promise<readonly [post: Answer, put: Answer]>;
  /** Checks that both return a 400 error with the usual shape and pass an additional check. */
  readonly refused: (
    definition: ResourceDefinition,
    call: Call,
    check?: (answer: Answer) => void,
  ) => Promise<void>;
  /** Checks that both succeed and pass an additional check. */
  readonly served: (
    definition: ResourceDefinition,
    call: Call,
    check?: (answer: Answer) => void,
  ) => Promise<void>;
  /** Checks that the work does not change a row of either organization. */
  readonly nothing: (work: () => Promise<unknown>) => Promise<void>;
}

export function writesOf(instance: () => Instance, pair: () => Pair): Writes {
  const both: Writes['both'] = async (definition, call) => {
    const { alpha, alphaIds } = pair();
    const keyed = { key: alpha.key, ...call };
    return [
      await instance().call(`POST ${pathOf(definition)}`, keyed),
      await instance().call(`PUT ${pathOf(definition, alphaIds[definition.name])}`, keyed),
    ];
  };
  const rows = async () => [
    await rowHashes(instance(), pair().alpha.id),
    await rowHashes(instance(), pair().beta.id),
  ];
  return {
    both,
    refused: async (definition, call, check) => {
      for (const answer of await both(definition, call)) {
        assert.equal(answer.status, 400, `${answer.text} to ${inspect(call)}`);
        assertErrorShape(answer);
        check?.(answer);
      }
    },
    served: async (definition, call, check) => {
      const answers = await both(definition, call);
      const statuses = answers.map(({ status }) => status);
      assert.deepEqual(statuses, [201, 200], `${answers[0].text} to ${inspect(call)}`);
      for (const answer of answers) check?.(answer);
    },
    nothing: async (work) => {
      const before = await rows();
      await work();
      assert.deepEqual(await rows(), before, 'no row changes');
    },
  };
}

const inspect = ({ body }: Call): string => String(body).slice(0, 300);
