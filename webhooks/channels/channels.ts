import { ownProperty } from '../endpoint/index.ts';
import type { Channel } from './channel.ts';
import { instagram, messenger } from './messenger.ts';
import { metaLeadAds } from './meta-lead-ads.ts';
import { telegram } from './telegram.ts';
import { twilio } from './twilio.ts';
import { whatsapp } from './whatsapp.ts';

/** Every channel by the name in its address. */
export const channels: Readonly<Record<string, Channel>> = {
  whatsapp,
  'meta-lead-ads': metaLeadAds,
  messenger,
  instagram,
  telegram,
  twilio,
};

/** The channel with a name; undefined if there is none. */
export const channelOf = (name: string): Channel | undefined => ownProperty(channels, name);
