import { cursorParts, encodeCursor } from '../../engine/query/index.ts';
import type { TextSigner } from '../../engine/records/index.ts';

/** A place in the feed of an organization: after this change. */
export interface FeedPosition {
  /** Number of the transaction, decimal text. Those below have all been read. */
  readonly transaction: string;
  /** Id of the row within the transaction, decimal text. */
  readonly id: string;
}

/** A place as cursors name it. */
export interface UnverifiedPosition extends FeedPosition {
  /** The time in which transaction numbers mean the same. */
  readonly epoch: string;
  /** Milliseconds since 1970: what is older was read, or is older than the place. */
  readonly at: number;
}

/** Before every change. */
export const feedBeginning: FeedPosition = { transaction: '0', id: '0' };

/** After every change that will ever be: only where it ends is asked for. */
export const feedEnding: FeedPosition = { transaction: '18446744073709551615', id: '0' };

/** Cursors are places of one organization, signed. */
export const feedCursors = ({ sign, verify }: TextSigner, organization: string) => {
  const signed = (text: string) => JSON.stringify([organization, 'events', text]);
  return {
    write: ({ epoch, transaction, id, at }: UnverifiedPosition): string => {
      const text = Buffer.from(JSON.stringify([epoch, transaction, id, at])).toString('base64url');
      return encodeCursor(text, sign(signed(text)));
    },
    /** Undefined for what is no cursor of the organization. */
    read: (cursor: string): UnverifiedPosition | undefined => {
      const given = cursorParts(cursor);
      if (given === undefined || !verify(signed(given.text), given.signature)) return undefined;
      const [epoch, transaction, id, at] = JSON.parse(Buffer.from(given.text, 'base64url').toString()) as [
        string,
        string,
        string,
        number,
      ];
      return { epoch, transaction, id, at };
    },
  };
};
