import type { SenderSettings, Settings } from '../settings/index.ts';

/** A message as a sender gets it: a text, or a provider's template with its parameters. */
export interface Outgoing {
  readonly to: string;
  readonly text: string;
  readonly template?: {
    readonly name: string;
    readonly language: string;
    readonly parameters: readonly string[];
  };
}

/** Why a message was not sent. The text names no secret and nothing that the provider said of it. */
export class SendError extends Error {}

/**
 * Hands a message to a provider.
 * @returns the provider's id of it
 * @throws SendError
 */
export type Sender = (
  message: Outgoing,
  settings: SenderSettings,
  graph: Settings['graph'],
  logInfo: (details: object, text: string) => void,
) => Promise<string>;
