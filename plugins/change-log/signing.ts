import type { TextSigner } from '../../engine/records/index.ts';
import { type InstanceSecrets, signing } from '../access/secrets/index.ts';

/** Creates the signer for the feed's cursors. */
export const feedSigning = (secrets: InstanceSecrets): TextSigner =>
  signing(secrets, 'cursors of the change feed');
