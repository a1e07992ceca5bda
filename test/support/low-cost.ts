// Passwords cost tests little: test/run.ts loads this before a test file. argon2 hashes them as the service asks, with
// its own parameters in the text of the hash, but with a hundredth of the memory; what passwords cost has tests that
// call for their real cost. Hashes that another process made are compared as they are.
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

/** The hashes that this process has computed: their stated cost, and whether the password fits into a block or so. */
const computed: string[] = [];
const longestPassword = 1024;
const record = (cost: string, password: string | Buffer): void => {
  computed.push(`${cost}, ${password.length <= longestPassword ? 'a short' : 'a long'} password`);
};

/** The hashes that are computed while some work is done: what logins cost, and how long they take, follows from them. */
export async function hashesDuring(work: () => Promise<unknown>): Promise<readonly string[]> {
  const before = computed.length;
  await work();
  return computed.slice(before);
}

/** From here on, hashes cost what they cost in the service. @returns how to end that */
export function realCost(): () => void {
  real = true;
  return () => {
    real = false;
  };
}

const [stated, low] = ['m=19456,p=1,t=2', 'm=192,p=1,t=1'];
/** The salts of hashes of low cost begin so. */
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
