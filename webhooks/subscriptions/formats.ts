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

/** How events are sent in a format. */
interface FormatOptions {
  /** Value of the header `Content-Type`. */
  readonly contentType: string;
  /** Returns the request body. */
  readonly body: (event: SubscriptionEvent, context: EnvelopeContext) => string;
}

/** All formats, keyed by name. */
export const formats: Readonly<Record<EventFormat, FormatOptions>> = {
  standard: {
    contentType: 'application/json',
    body: ({ type, at, data }) => `{"type":${JSON.stringify(type)},"timestamp":"${at}","data":${data}}`,
  },
  cloudevents: {
    contentType: `${cloudEventsType}; charset=utf-8`,
    body: ({ type, at, subject, data }, { id, source }) => {
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
    },
  },
};
