import { addressMessages } from '../../engine/addresses.ts';
import type { TextIn } from '../../plugins/admin-ui/shell/index.ts';
import { commonReasons, type Reason, type Wording, type Wordings } from '../queue/index.ts';
import type { FilterMode } from './input.ts';
import { subscriptionsTexts } from './texts/index.ts';

const { later } = subscriptionsTexts;

/** Returns the wording of a reason without values. */
const plain = (sentence: string, text: TextIn): Wording => ({ sentence: () => sentence, text: () => text });

/** Returns the wording of a URL that is not allowed. */
const address = (code: keyof typeof addressMessages, text: Wording['text']): Wording => ({
  sentence: addressMessages[code],
  text,
});

/** Codes of Node.js for connections that failed because of TLS. */
const tlsCode = /CERT|SSL|TLS|EPROTO|UNABLE_TO_/;

/** Returns what happened to a connection. @param code the code of Node.js, for example ECONNREFUSED, or an empty string */
function connectionText(code: string): TextIn {
  if (code === '') return later('connectionFailed');
  if (code === 'ECONNREFUSED') return later('refused', { code });
  if (code === 'ECONNRESET' || code === 'EPIPE') return later('connectionClosed', { code });
  if (code === 'ENETUNREACH' || code === 'EHOSTUNREACH') return later('unreachable', { code });
  return tlsCode.test(code) ? later('tlsFailed', { code }) : later('connectionFailedWith', { code });
}

/** Texts about records that do not start to match the filter, or do not stop matching it. */
const notMovedTexts: Readonly<Record<string, TextIn>> = {
  enters: later('notEntered'),
  leaves: later('notLeft'),
} satisfies Partial<Record<FilterMode, TextIn>>;

/** The reasons why an event was not delivered or not sent. */
export const deliveryReasons = {
  ...commonReasons,
  // The request failed.
  timeout: {
    sentence: () => 'no response in time',
    text: ({ seconds = '' }) => later('timeout', { seconds }),
  },
  connection: {
    sentence: ({ code = '' }) => `connection failed${code === '' ? '' : ` (${code})`}`,
    text: ({ code = '' }) => connectionText(code),
  },
  status: {
    sentence: ({ status = '' }) => `the receiver responded with ${status}`,
    text: ({ status = '' }) => later('responded', { status }),
  },
  stopped: plain('the service stopped before the receiver responded', later('stopped')),
  // The URL is not allowed.
  invalidUrl: address('invalidUrl', () => later('urlInvalid')),
  protocol: address('protocol', ({ protocols = '' }) => later('urlProtocol', { protocols })),
  credentials: address('credentials', () => later('urlCredentials')),
  fragment: address('fragment', () => later('urlFragment')),
  port: address('port', ({ ports = '' }) => later('urlPort', { ports })),
  privateAddress: address('privateAddress', () => later('privateAddress')),
  metadataAddress: address('metadataAddress', () => later('metadataAddress')),
  unknownHost: address('unknownHost', () => later('unknownHost')),
  // The event must not be sent.
  missingResource: {
    sentence: ({ resource }) => `the resource ${resource} no longer exists`,
    text: ({ resource = '' }) => later('missingResource', { resource }),
  },
  notGranted: {
    sentence: ({ resource }) => `the subscription's profile does not grant read on ${resource}`,
    text: ({ resource = '' }) => later('notGranted', { resource }),
  },
  missingChange: plain('the change log no longer contains the change', later('missingChange')),
  outdatedSelection: {
    sentence: ({ message = '' }) => message,
    text: ({ message = '' }) => later('outdatedSelection', { message }),
  },
  otherNode: plain('another node sends the batch', later('otherNode')),
  // The event does not concern the subscription.
  hiddenChange: plain("the subscription's profile cannot read this change", later('hiddenChange')),
  otherTransition: plain('the change is not one of the transitions', later('otherTransition')),
  notMoved: {
    sentence: ({ mode }) => `the record is not one that ${mode} the filter by this change`,
    text: ({ mode = '' }) => notMovedTexts[mode] ?? later('noMatch'),
  },
  noMatch: plain('the record does not match the filter', later('noMatch')),
  emptyBatch: plain('the batch no longer contains events', later('emptyBatch')),
} satisfies Wordings;

/** Why an event was not delivered or not sent. */
export type DeliveryReason = Reason<keyof typeof deliveryReasons>;
