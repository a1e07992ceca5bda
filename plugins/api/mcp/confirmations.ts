import { errors, type HttpError } from '../../../engine/errors.ts';
import { documentText } from '../../../engine/fields/index.ts';
import type { Body, CallerIdentity, TextSigner } from '../../../engine/records/index.ts';

/** Maximum number of records that a call writes without a confirmation. */
export const maxUnconfirmed = 10;

/** Lifetime of a confirmation, in minutes. */
export const confirmationMinutes = 10;

/** Issues and verifies confirmations for calls that write many records. */
export interface Confirmations {
  /** Returns a confirmation for a call, which is valid for a limited time. */
  readonly issue: (call: BulkCall) => string;
  /** Checks a confirmation. @throws HttpError 400 unless it was issued for this call, and is still valid */
  readonly verify: (call: BulkCall, confirmation: string | undefined) => void;
}

/** A call that writes several records, and the records' entity tags. */
export interface BulkCall extends Pick<CallerIdentity, 'organization' | 'actor'> {
  readonly tool: string;
  readonly resource: string;
  readonly ids: readonly string[];
  readonly body: Body;
  readonly tags: readonly string[];
}

const separator = '.';

/** Returns the error for a call with an absent or unusable confirmation. */
function unconfirmed(problem: string): HttpError {
  const hint =
    'Call the tool with the same arguments and dry_run, show the changes to your user and, if the user agrees, pass "confirm" of the result.';
  return errors.invalidFields([{ field: 'confirm', message: `confirm ${problem}. ${hint}`, hint }]);
}

/** Creates confirmations that are signed, so that only the key's own call with the same arguments and records can use them. */
export function signedConfirmations({ sign, verify }: TextSigner): Confirmations {
  const signedText = ({ organization, actor, tool, resource, ids, body, tags }: BulkCall, end: string) =>
    JSON.stringify([organization, actor, tool, resource, ids, documentText(body), tags, end]);
  return {
    issue: (call) => {
      const end = String(Date.now() + confirmationMinutes * 60_000);
      return `${end}${separator}${sign(signedText(call, end))}`;
    },
    verify: (call, confirmation) => {
      if (confirmation === undefined)
        throw unconfirmed(`is required to write more than ${maxUnconfirmed} records`);
      const [end = '', signature = ''] = confirmation.split(separator);
      if (!verify(signedText(call, end), signature))
        throw unconfirmed('was issued for another call, or a record has changed since');
      if (Number(end) < Date.now()) throw unconfirmed('has expired');
    },
  };
}
