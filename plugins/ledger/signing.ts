import type { Signing } from '../../engine/records/index.ts';
import { type InstanceSecrets, signing } from '../secrets/index.ts';

/** Signs the cursors of the feed. */
export const feedSigning = (secrets: InstanceSecrets): Signing =>
  signing(secrets, 'cursors of the change feed');
