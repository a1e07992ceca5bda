import { isServed } from '../../engine/modules/index.ts';
import { literal } from '../../engine/sql/index.ts';
import type { Channel } from './channel.ts';
import { instagram, messenger } from './messenger.ts';
import { metaLeadAds } from './meta-lead-ads.ts';
import { telegram } from './telegram.ts';
import { twilio } from './twilio.ts';
import { whatsapp } from './whatsapp.ts';

/** Channels, keyed by their name in URLs. */
export type Channels = Readonly<Record<string, Channel>>;

/** The engine's own channels. */
export const channels: Channels = {
  whatsapp,
  'meta-lead-ads': metaLeadAds,
  messenger,
  instagram,
  telegram,
  twilio,
};

/** A module that adds channels. */
export interface ChannelModule {
  readonly channels?: Channels;
}

/** The configuration that determines an instance's channels. */
export interface ChannelConfig {
  readonly modules: readonly ChannelModule[];
}

/** Returns the channels of an instance. */
export const channelsOf = ({ modules }: ChannelConfig): Channels =>
  Object.fromEntries(modules.flatMap(({ channels: own = {} }) => Object.entries(own)));

/** Returns the channels that an instance with these retired resources can use. */
export const availableChannels = (
  all: Channels,
  retired: readonly { readonly name: string }[] = [],
): Channels =>
  Object.fromEntries(
    Object.entries(all).filter(
      ([, { needs }]) => needs === undefined || isServed({ needs: [needs] }, retired),
    ),
  );

/** Returns an SQL expression for the label of the channel named in a column. */
export const channelLabel = (all: Channels, column: string): string =>
  `case ${column} ${Object.entries(all)
    .map(([name, { label }]) => `when ${literal(name)} then ${literal(label)}`)
    .join(' ')} else ${column} end`;
