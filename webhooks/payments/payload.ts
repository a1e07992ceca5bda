import { hash } from 'node:crypto';
import type { FastifyRequest } from 'fastify';
import { errors } from '../../engine/errors.ts';
import { ExactNumber, isTimestamp } from '../../engine/fields/index.ts';
import type { Body } from '../../engine/records/index.ts';
import { indexable, type LeadTraits } from '../endpoint/index.ts';
import type { Payment } from '../settings/index.ts';

/** A payment extracted from a payload according to the customer's entry in config.yaml. */
export interface ParsedPayment {
  readonly eventId: string;
  readonly lead: LeadTraits;
  readonly opportunity: Body;
}

/** Returns whether a request is the unsigned form that WooCommerce sends to test a new webhook. */
export function isPing({ verify }: Payment, { headers }: FastifyRequest, raw: Buffer): boolean {
  return (
    verify.header.toLowerCase() === 'x-wc-webhook-signature' &&
    headers[verify.header.toLowerCase()] === undefined &&
    /^application\/x-www-form-urlencoded/i.test(headers['content-type'] ?? '') &&
    raw.length < 40 &&
    /^webhook_id=\d+$/.test(raw.toString('latin1'))
  );
}

/** Returns whether a payload meets a payment entry's conditions. */
export const matchesConditions = ({ when = {}, evaluate }: Payment, payload: Body): boolean =>
  Object.entries(when).every(([expression, values]) => values.includes(evaluate(expression, payload)));

/** Extracts a payment from a payload. @throws HttpError 400 if the amount is not a number */
export function readPayment(
  entry: Payment,
  payload: Body,
  request: FastifyRequest,
  raw: Buffer,
): ParsedPayment {
  const { lead = {}, opportunity = {}, event_id, event_id_header, evaluate } = entry;
  const inHeader = event_id_header && request.headers[event_id_header.toLowerCase()];
  const providerId = typeof inHeader === 'string' ? inHeader : evaluate(event_id, payload);
  const currency = withoutUnstorable(evaluate(opportunity.currency, payload)).toUpperCase();
  const amount = decimal(evaluate(opportunity.amount, payload), opportunity.minor_units === true, currency);
  const name = evaluate(opportunity.name, payload);
  return {
    eventId: eventIdOf(providerId, raw),
    lead: {
      id: evaluate(lead.id, payload),
      email: withoutUnstorable(evaluate(lead.email, payload)),
      phone: withoutUnstorable(evaluate(lead.phone, payload)),
    },
    opportunity: {
      name: withoutUnstorable(name) || 'Payment',
      amount: new ExactNumber(amount),
      stage: 'Closed Won',
      probability: 100,
      close_date: closeDate(evaluate(opportunity.close_date, payload)),
      description: currency === '' ? '' : `Paid in ${currency}.`,
    },
  };
}

/** Returns the event's ID in an indexable form, or the body's digest if it has no ID. */
function eventIdOf(providerId: string, raw: Buffer): string {
  return indexable(providerId) || hash('sha256', raw, 'hex');
}

/**
 * Truncates a string and removes characters that PostgreSQL cannot store, so that they do not cause a payment
 * to fail.
 */
export const withoutUnstorable = (text: string): string =>
  text.slice(0, 1000).toWellFormed().replaceAll('\0', '');

/** Formats an amount as a decimal string. Converts minor units (cents) to major units without rounding. */
function decimal(text: string, minor: boolean, currency: string): string {
  if (text === '') return '0';
  const match = /^(-?)(\d{1,30})(?:\.(\d{1,30}))?$/.exec(text);
  if (match === null) throw errors.invalidItem('the amount is not a number');
  const [, sign = '', integer = '', fraction = ''] = match;
  if (!minor) return text;
  const places = fractionDigits(currency);
  const digits = integer.padStart(places + 1, '0');
  const split = digits.length - places;
  const decimals = `${digits.slice(split)}${fraction}`;
  return `${sign}${digits.slice(0, split)}${decimals === '' ? '' : `.${decimals}`}`;
}

/** Returns the number of digits in a currency's minor unit (ISO 4217): 2 for EUR, 0 for JPY. */
function fractionDigits(currency: string): number {
  try {
    const format = new Intl.NumberFormat('en', { style: 'currency', currency: currency || 'USD' });
    return format.resolvedOptions().maximumFractionDigits ?? 2;
  } catch {
    return 2;
  }
}

/**
 * Converts an RFC 3339 timestamp or a Unix time in seconds to a close date. Returns the current time for anything
 * else.
 */
function closeDate(text: string): string {
  if (/^\d{9,11}$/.test(text)) return new Date(Number(text) * 1000).toISOString();
  return isTimestamp(text) ? text : new Date().toISOString();
}
