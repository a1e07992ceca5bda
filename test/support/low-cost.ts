// Cheap password hashing for tests, which test/run.ts loads before a test file. argon2 uses a hundredth of
// the memory, but the hash states the service's parameters. Tests of the real cost enable it explicitly.
// Hashes without the salt prefix below, for example from a service in another process, are verified at the
// cost that they state.
import { randomBytes } from 'node:crypto';
import { createRequire } from 'node:module';
import { isMainThread } from 'node:worker_threads';

interface Parameters {
  readonly memoryCost?: number;
  readonly timeCost?: number;
  readonly salt?: Buffer;
}

interface Argon2 {
  hash: (password: string | Buffer, parameters?: Parameters) => Promise<string>;
  verify: (stored: string, password: string | Buffer) => Promise<boolean>;
}

let real = false;

/** Hashes computed by this process: their stated cost, and whether the password is short or long. */
const computed: string[] = [];
const longestPassword = 1024;
const record = (cost: string, password: string | Buffer): void => {
  computed.push(`${cost}, ${password.length <= longestPassword ? 'a short' : 'a long'} password`);
};

/** Returns the hashes computed during the work. They determine the cost and duration of a login. */
export async function hashesDuring(work: () => Promise<unknown>): Promise<readonly string[]> {
  const before = computed.length;
  await work();
  return computed.slice(before);
}

/**
 * Enables the service's real hashing cost.
 * @returns a function that disables it
 */
export function realCost(): () => void {
  real = true;
  return () => {
    real = false;
  };
}

const [stated, low] = ['m=19456,p=1,t=2', 'm=192,p=1,t=1'];
/** Prefix of the salts in low-cost hashes. */
const mark = Buffer.from('lowcost ');

if (isMainThread) {
  const argon2 = createRequire(import.meta.url)('argon2') as Argon2;
  const { hash, verify } = argon2;
  argon2.hash = async (password, parameters = {}) => {
    const { memoryCost, timeCost, salt = Buffer.concat([mark, randomBytes(8)]) } = parameters;
    record(`m=${memoryCost},t=${timeCost}`, password);
    const asStated = memoryCost === 19_456 && timeCost === 2;
    if (real || !asStated || !salt.subarray(0, mark.length).equals(mark)) return hash(password, parameters);
    const made = await hash(password, { ...parameters, salt, memoryCost: 192, timeCost: 1 });
    return made.replace(low, stated);
  };
  argon2.verify = (stored, password) => {
    const [, , , cost = '', encoded = ''] = stored.split('$');
    record(cost.replace(/,p=1(?=,)/, ''), password);
    const salt = Buffer.from(encoded, 'base64');
    const isLow = !real && salt.subarray(0, mark.length).equals(mark);
    return verify(isLow ? stored.replace(stated, low) : stored, password);
  };
}
