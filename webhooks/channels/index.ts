// Channels: one object per provider, with its signature scheme and event processing.
// May import engine, plugins, settings, endpoint.

export {
  type Channel,
  type ChannelContext,
  type ChannelEvent,
  followMessage,
  type IncomingMessage,
  type Integration,
  type OutgoingText,
  PermanentError,
  type ProviderRequest,
  RetryableError,
  type SendContext,
  type SimulatedEvent,
  type Simulation,
  storeMessage,
} from './channel.ts';
export {
  availableChannels,
  type ChannelConfig,
  type ChannelModule,
  type Channels,
  channelLabel,
  channels,
  channelsOf,
} from './channels.ts';
export { leadAdsNeeds } from './meta-lead-ads.ts';
export { type ModuleChannel, moduleChannel } from './module-channel.ts';
