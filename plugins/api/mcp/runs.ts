import { errors, type HttpError } from '../../../engine/errors.ts';
import type { CallerIdentity, TextSigner } from '../../../engine/records/index.ts';
import { generatePublicId } from '../../access/secrets/index.ts';

/**
 * Runs of agents. Writes that name the same run belong together. Only the instance can issue the ID of a run, and only the key to
 * which it was issued can use it.
 */
export interface Runs {
  /** Returns the ID of a new run, with its signature. */
  readonly issue: (caller: CallerIdentity) => string;
  /** Returns a run's ID without its signature. @throws HttpError 400 unless it was issued to the caller */
  readonly verify: (caller: CallerIdentity, run: string) => string;
}

const separator = '.';

/** Returns the error for a run that the instance did not issue to the caller. */
function unknownRun(): HttpError {
  const hint = 'Call describe without "resource", and pass the "run" in its result.';
  return errors.invalidFields([{ field: 'run', message: `run was not issued to this key. ${hint}`, hint }]);
}

/** Creates runs whose IDs are signed. */
export function signedRuns({ sign, verify }: TextSigner): Runs {
  const signedText = ({ organization, actor }: CallerIdentity, id: string): string =>
    [organization, actor, id].join(separator);
  return {
    issue: (caller) => {
      const id = generatePublicId();
      return `${id}${separator}${sign(signedText(caller, id))}`;
    },
    verify: (caller, run) => {
      const [id = '', signature = '', ...rest] = run.split(separator);
      if (rest.length > 0 || !verify(signedText(caller, id), signature)) throw unknownRun();
      return id;
    },
  };
}
