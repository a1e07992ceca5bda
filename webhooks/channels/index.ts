// Channels: one object per provider, with its signature scheme and the meaning of its events.
// May import engine, settings, endpoint.

export {
  type Channel,
  type ChannelEvent,
  type Delivery,
  type Integration,
  PermanentError,
  RetryableError,
} from './channel.ts';
export { channelLabel, channelOf, channels } from './channels.ts';
export { messenger } from './messenger.ts';
export { metaSignature } from './meta.ts';
export { leadAdsNeeds, metaLeadAds } from './meta-lead-ads.ts';
export { telegram } from './telegram.ts';
export { twilio, twilioSignature } from './twilio.ts';
export { whatsapp } from './whatsapp.ts';
