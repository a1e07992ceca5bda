import { cursorParts, encodeCursor } from '../../engine/query/index.ts';
import type { TextSigner } from '../../engine/records/index.ts';
import { type InstanceSecrets, signing } from '../access/secrets/index.ts';

/** A position in an organization's feed, immediately after a change. */
export interface FeedPosition {
  /** Transaction ID as a decimal string. All changes with lower IDs have been read. */
  readonly transaction: string;
  /** ID of the row within the transaction, as a decimal string. */
  readonly id: string;
}

/** A position as encoded in cursors. */
export interface UnverifiedPosition extends FeedPosition {
  /** The epoch in which the transaction ID is valid. */
  readonly epoch: string;
  /** Time of the position, in milliseconds since 1970. Older changes have been read. */
  readonly at: number;
}

/** The position before all changes. */
export const beforeAllChanges: FeedPosition = { transaction: '0', id: '0' };

/** The position after all possible changes. Reading from it returns no changes, only the feed's end. */
export const afterAllChanges: FeedPosition = { transaction: '18446744073709551615', id: '0' };

/**
 * Returns functions that encode and decode an organization's signed cursors.
 * @param view key of the view in which the feed is read
 */
export const feedCursors = ({ sign, verify }: TextSigner, organization: string, view = '') => {
  const signedText = (text: string) =>
    JSON.stringify([organization, 'events', text, ...(view === '' ? [] : [view])]);
  return {
    write: ({ epoch, transaction, id, at }: UnverifiedPosition): string => {
      const text = Buffer.from(JSON.stringify([epoch, transaction, id, at])).toString('base64url');
      return encodeCursor(text, sign(signedText(text)));
    },
    /** Decodes a cursor. Returns undefined if it is invalid or belongs to another organization or view. */
    read: (cursor: string): UnverifiedPosition | undefined => {
      const parts = cursorParts(cursor);
      if (parts === undefined || !verify(signedText(parts.text), parts.signature)) return undefined;
      const [epoch, transaction, id, at] = JSON.parse(Buffer.from(parts.text, 'base64url').toString()) as [
        string,
        string,
        string,
        number,
      ];
      return { epoch, transaction, id, at };
    },
  };
};

/** Creates the signer for the feed's cursors. */
export const feedSigning = (secrets: InstanceSecrets): TextSigner =>
  signing(secrets, 'cursors of the change feed');
