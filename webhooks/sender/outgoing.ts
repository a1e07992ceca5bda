import type { SenderSettings, Settings } from '../settings/index.ts';

/** A message to send: plain text, or a provider template with its parameters. */
export interface Outgoing {
  readonly to: string;
  readonly text: string;
  readonly template?: {
    readonly name: string;
    readonly language: string;
    readonly parameters: readonly string[];
  };
}

/** Thrown if a message could not be sent. The error contains no secrets or provider responses. */
export class SendError extends Error {}

/**
 * Sends a message through a provider.
 * @returns the provider's message ID
 * @throws SendError if the message could not be sent
 */
export type MessageSender = (
  message: Outgoing,
  settings: SenderSettings,
  graph: Settings['graph'],
  logInfo: (details: object, text: string) => void,
) => Promise<string>;
