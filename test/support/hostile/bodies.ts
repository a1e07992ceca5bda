// Test support: generates every hostile body for a route from the body that the route expects.
import {
  csvBodies,
  formBodies,
  formText,
  jsonBodies,
  jsonValues,
  many,
  multipartBodies,
  ndjsonBodies,
  texts,
} from './values.ts';

/** A body ready to be sent. */
export interface HostileBody {
  readonly name: string;
  readonly type: string;
  readonly bytes: (limit: number) => Uint8Array;
  /** `Content-Encoding` header of the request. */
  readonly encoding?: 'gzip';
  /** Maximum size before compression, in bytes, if it is smaller than the route's limit. */
  readonly most?: number;
}

/**
 * The body that a route expects: JSON of this shape, or a form with these fields. The values whose names are
 * in `kept` are unchanged.
 */
export interface Expected {
  readonly type: 'application/json' | 'application/x-www-form-urlencoded';
  readonly shape: unknown;
  readonly kept: readonly string[];
}

/** A file of records with this field, sent as the body, or as part of a form that starts with these parts. */
export interface ExpectedFile {
  readonly type: 'text/csv' | 'application/x-ndjson' | 'multipart/form-data';
  readonly field: string;
  readonly start: string;
}

const json = 'application/json';
const form = 'application/x-www-form-urlencoded';
const multipart = 'multipart/form-data; boundary=x';
/** Maximum size of bodies whose lines are validated one by one, in bytes. */
const costlyBytes = 48 * 1024;
/** One in this many bodies is also sent in compressed form. */
const compressedEvery = 7;

/** Content types of the bodies for routes that do not expect files. */
export const usualTypes: readonly string[] = [json, form, 'text/plain', 'multipart/form-data'];

/** Returns the compressed variant of a body. */
const compressed = (each: HostileBody): HostileBody => ({
  ...each,
  name: `${each.name}, compressed`,
  encoding: 'gzip',
});

/** Returns every hostile body for a route, including compressed variants of some bodies. */
export function hostileBodies(expected: Expected): HostileBody[] {
  const all = plainBodies(expected);
  return [...all, ...all.filter((_, index) => index % compressedEvery === 0).map(compressed)];
}

/** Returns every hostile file. Files sent as the body are also compressed. */
export function hostileFiles({ type, field, start }: ExpectedFile): HostileBody[] {
  const lines = type === 'application/x-ndjson' ? ndjsonBodies(field) : csvBodies(field);
  const files = Object.entries(lines).map(([name, { bytes, isCostly }]): HostileBody => {
    const { bytes: made } = body(name, type, bytes);
    return { name, type, bytes: made, ...(isCostly && { most: costlyBytes }) };
  });
  if (type !== 'multipart/form-data') return [...files, ...files.map(compressed)];
  const head = `${start}--x\r\ncontent-disposition: form-data; name="file"; filename="a.csv"\r\n\r\n`;
  return [
    ...files.map((file) => ({
      ...file,
      type: multipart,
      bytes: (limit: number) =>
        Buffer.concat([Buffer.from(head), file.bytes(Math.floor(limit / 3)), Buffer.from('\r\n--x--\r\n')]),
    })),
    ...Object.entries(multipartBodies).flatMap(([name, bytes]) => [
      body(name, multipart, (limit) => bytes(start, limit)),
      body(`${name}, without a token`, multipart, (limit) => bytes('', limit)),
    ]),
  ];
}

function plainBodies(expected: Expected): HostileBody[] {
  const inPlace = expected.type === json ? jsonInPlace(expected) : formsInPlace(expected);
  const whole = expected.type === json ? jsonBodies : formBodies;
  const other = expected.type === json ? formBodies : jsonBodies;
  return [
    ...inPlace,
    ...Object.entries(whole).map(([name, bytes]) => body(name, expected.type, bytes)),
    ...Object.entries(other).flatMap(([name, bytes], index) =>
      // Bodies of the type that the route does not expect.
      index % 4 === 0 ? [body(`${name}, unexpected type`, expected.type === json ? form : json, bytes)] : [],
    ),
    body('plain text', 'text/plain', (limit) => many('a', limit)),
    body('parts', multipart, (limit) => many('--x\r\n\r\n', limit / 7)),
    body('unknown charset', `${expected.type}; charset=${'x'.repeat(1000)}`, (limit) => many(' ', limit)),
  ];
}

const body = (name: string, type: string, bytes: (limit: number) => string | Uint8Array): HostileBody => ({
  name,
  type,
  bytes: (limit) => {
    const made = bytes(limit);
    return typeof made === 'string' ? Buffer.from(made) : made;
  },
});

/** Puts each hostile value in all positions of the shape. The positions share the size limit. */
const jsonInPlace = ({ shape, kept }: Expected): HostileBody[] =>
  Object.entries(jsonValues).map(([name, value]) =>
    body(name, json, (limit) => {
      let places = 0;
      const size = Buffer.concat(
        filled(shape, kept, () => {
          places++;
          return Buffer.alloc(0);
        }),
      ).length;
      const each = Buffer.from(value(Math.floor((limit - size) / Math.max(1, places))));
      return Buffer.concat(filled(shape, kept, () => each));
    }),
  );

/** Returns the parts of a shape's JSON text and replaces every value that is not kept. */
function filled(shape: unknown, kept: readonly string[], value: () => Buffer): Buffer[] {
  const separated = (items: readonly Buffer[][]) =>
    items.flatMap((item, index) => (index === 0 ? item : [Buffer.from(','), ...item]));
  if (Array.isArray(shape)) {
    return [Buffer.from('['), ...separated(shape.map((item) => filled(item, kept, value))), Buffer.from(']')];
  }
  if (typeof shape !== 'object' || shape === null) return [value()];
  const members = Object.entries(shape).map(([key, item]) => [
    Buffer.from(`${JSON.stringify(key)}:`),
    ...(kept.includes(key) ? [Buffer.from(JSON.stringify(item))] : filled(item, kept, value)),
  ]);
  return [Buffer.from('{'), ...separated(members), Buffer.from('}')];
}

/**
 * Puts each hostile string alternately in all fields together and in one field of an otherwise valid form.
 */
function formsInPlace({ shape, kept }: Expected): HostileBody[] {
  const right = Object.entries(shape as Record<string, string>);
  const free = right.map(([name]) => name).filter((name) => !kept.includes(name));
  const written = (chosen: readonly string[], value: (bytes: number) => Buffer) => (limit: number) => {
    const fixed = right.filter(([name]) => !chosen.includes(name));
    const start = new URLSearchParams(fixed).toString();
    const left = limit - start.length - chosen.join('').length - 2 * right.length;
    const each = Math.floor(left / Math.max(1, chosen.length));
    const text = value(each);
    return Buffer.concat([Buffer.from(start), ...chosen.flatMap((name) => [Buffer.from(`&${name}=`), text])]);
  };
  return Object.entries(texts).flatMap(([name, text], index) => {
    const value = (bytes: number) => formText(text, bytes);
    const one = free[(index >> 1) % Math.max(1, free.length)];
    return index % 3 === 0 || one === undefined
      ? [body(name, form, written(free, value))]
      : [body(`${name} in ${one}`, form, written([one], value))];
  });
}
