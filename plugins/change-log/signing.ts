import type { TextSigner } from '../../engine/records/index.ts';
import { type InstanceSecrets, signing } from '../access/secrets/index.ts';

/** Signs the cursors of the feed. */
export const feedSigning = (secrets: InstanceSecrets): TextSigner =>
  signing(secrets, 'cursors of the change feed');
