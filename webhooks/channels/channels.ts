import { isServed } from '../../engine/modules/index.ts';
import { literal } from '../../engine/sql/index.ts';
import { ownProperty } from '../endpoint/index.ts';
import type { Channel } from './channel.ts';
import { instagram, messenger } from './messenger.ts';
import { metaLeadAds } from './meta-lead-ads.ts';
import { telegram } from './telegram.ts';
import { twilio } from './twilio.ts';
import { whatsapp } from './whatsapp.ts';

/** All channels, keyed by their name in URLs. */
export const channels: Readonly<Record<string, Channel>> = {
  whatsapp,
  'meta-lead-ads': metaLeadAds,
  messenger,
  instagram,
  telegram,
  twilio,
};

/** Returns the channels that an instance with these retired resources can use, keyed by their name in URLs. */
export const availableChannels = (
  retired: readonly { readonly name: string }[] = [],
): Readonly<Record<string, Channel>> =>
  Object.fromEntries(
    Object.entries(channels).filter(
      ([, { needs }]) => needs === undefined || isServed({ needs: [needs] }, retired),
    ),
  );

/** Returns the channel with this name, or undefined if it does not exist. */
export const channelOf = (name: string): Channel | undefined => ownProperty(channels, name);

/** Returns an SQL expression for the label of the channel named in a column. */
export const channelLabel = (column: string): string =>
  `case ${column} ${Object.entries(channels)
    .map(([name, { label }]) => `when ${literal(name)} then ${literal(label)}`)
    .join(' ')} else ${column} end`;
