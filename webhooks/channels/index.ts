// Channels: one object per provider, with its signature scheme and event processing.
// May import engine, settings, endpoint.

export {
  type Channel,
  type ChannelEvent,
  type Integration,
  PermanentError,
  type ProviderRequest,
  RetryableError,
  type SimulatedEvent,
  type Simulation,
} from './channel.ts';
export { availableChannels, channelLabel, channelOf, channels } from './channels.ts';
export { leadAdsNeeds } from './meta-lead-ads.ts';
