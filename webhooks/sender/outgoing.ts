import type { SenderSettings, Settings } from '../settings/index.ts';

/** A message for a sender: a text, or a provider's template with its parameters. */
export interface Outgoing {
  readonly to: string;
  readonly text: string;
  readonly template?: {
    readonly name: string;
    readonly language: string;
    readonly parameters: readonly string[];
  };
}

/** Why a message was not sent. The text contains no secret and nothing of the provider's response. */
export class SendError extends Error {}

/**
 * Sends a message through a provider.
 * @returns the provider's id of it
 * @throws SendError
 */
export type MessageSender = (
  message: Outgoing,
  settings: SenderSettings,
  graph: Settings['graph'],
  logInfo: (details: object, text: string) => void,
) => Promise<string>;
