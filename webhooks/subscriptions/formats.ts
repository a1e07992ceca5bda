import type { EventFormat } from './input.ts';

/** An event, independent of the format in which it is sent. */
export interface SubscriptionEvent {
  /** For example `leads.updated`. */
  readonly type: string;
  /** Time of the change (RFC 3339). */
  readonly at: string;
  /** Resource and ID of the record, for example `leads/5`; undefined if the event is not about a record. */
  readonly subject: string | undefined;
  /** The event's data as JSON. */
  readonly data: string;
}

/** What an envelope adds to an event. */
interface EnvelopeContext {
  /** The event's ID, which is the same in every attempt and replay. */
  readonly id: string;
  /** URI reference of the subscription. Together with the ID, it identifies the event. */
  readonly source: string;
}

/** Media type of an event in the JSON format of CloudEvents 1.0. */
export const cloudEventsType = 'application/cloudevents+json';

/** Media type of an array of events in the JSON batch format of CloudEvents 1.0. */
export const cloudEventsBatchType = 'application/cloudevents-batch+json';

/** How events are sent in a format. */
interface FormatOptions {
  /** Value of the header `Content-Type`. */
  readonly contentType: string;
  /** Returns the request body. */
  readonly body: (event: SubscriptionEvent, context: EnvelopeContext) => string;
  /** Value of the header `Content-Type` if the body is an array of events. */
  readonly batchContentType: string;
  /** Returns an event as an element of such an array. */
  readonly element: (event: SubscriptionEvent, context: EnvelopeContext) => string;
}

const standardProperties = ({ type, at, data }: SubscriptionEvent): string =>
  `"type":${JSON.stringify(type)},"timestamp":"${at}","data":${data}`;

/** Returns an event in the JSON format of CloudEvents 1.0. */
const cloudEvent: FormatOptions['body'] = ({ type, at, subject, data }, { id, source }) => {
  const attributes = {
    specversion: '1.0',
    id,
    source,
    type,
    ...(subject !== undefined && { subject }),
    time: at,
    datacontenttype: 'application/json',
  };
  // The data is already JSON, and parsing it would round its numbers.
  return `${JSON.stringify(attributes).slice(0, -1)},"data":${data}}`;
};

/** All formats, keyed by name. */
export const formats: Readonly<Record<EventFormat, FormatOptions>> = {
  standard: {
    contentType: 'application/json',
    body: (event) => `{${standardProperties(event)}}`,
    batchContentType: 'application/json',
    element: (event, { id }) => `{"id":${JSON.stringify(id)},${standardProperties(event)}}`,
  },
  cloudevents: {
    contentType: `${cloudEventsType}; charset=utf-8`,
    body: cloudEvent,
    batchContentType: `${cloudEventsBatchType}; charset=utf-8`,
    element: cloudEvent,
  },
};
