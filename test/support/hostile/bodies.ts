// Test support: generates every hostile body for a route from the body that the route expects.
import {
  csvBodies,
  type FileFields,
  formBodies,
  formText,
  jsonBodies,
  jsonContainers,
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
  /** Whether hostile values replace the values of the expected body. */
  readonly isInPlace?: true;
  /** Parameters of the request. */
  readonly query?: string;
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

/** A file of records with these fields, sent as the body, or as part of a form that starts with these parts. */
export interface ExpectedFile extends FileFields {
  readonly type: 'text/csv' | 'application/x-ndjson' | 'multipart/form-data';
  readonly start: string;
}

const json = 'application/json';
const form = 'application/x-www-form-urlencoded';
const multipart = 'multipart/form-data; boundary=x';
/** Maximum size of bodies whose lines are validated one by one, in bytes. */
const costlyBytes = 48 * 1024;
/** Maximum size of forms with a file that are compressed, in bytes. They are rejected, because forms cannot be compressed. */
const compressedForm = 1024 * 1024;

/** Content types of the bodies for routes that do not expect files. */
export const usualTypes: readonly string[] = [json, form, 'text/plain', 'multipart/form-data'];

/** Returns the compressed variant of a body. */
const compressed = (each: HostileBody): HostileBody => ({
  ...each,
  name: `${each.name}, compressed`,
  encoding: 'gzip',
});

/** The body that a client would send: the shape with empty values. */
export const expectedBody = ({ type, shape }: Expected): Buffer =>
  Buffer.from(
    type === json
      ? JSON.stringify(shape)
      : new URLSearchParams(shape as Readonly<Record<string, string>>).toString(),
  );

/** Which bodies a kind of route receives in compressed form: each one out of this many, starting with this one. */
export interface Compression {
  readonly first: number;
  readonly every: number;
}

/**
 * Returns every hostile body for a route, including compressed variants of some bodies. Few kinds of routes expect bodies with
 * parts, so each one also receives all hostile values in place of them in compressed form.
 */
export function hostileBodies(expected: Expected, { first, every }: Compression): HostileBody[] {
  const all = plainBodies(expected);
  const instead = expected.type === json ? jsonInstead(expected) : [];
  const some = all.filter((_, index) => index % every === first);
  return [...all, ...instead, ...[...some, ...instead].map(compressed)];
}

/** Returns every hostile file, plain and compressed. */
export function hostileFiles({ type, start, ...fields }: ExpectedFile): HostileBody[] {
  const lines = type === 'application/x-ndjson' ? ndjsonBodies(fields) : csvBodies(fields);
  const files = Object.entries(lines).map(([name, { bytes, isCostly, query }]): HostileBody => {
    const { bytes: made } = body(name, type, bytes);
    return { name, type, bytes: made, ...(isCostly && { most: costlyBytes }), ...(query && { query }) };
  });
  if (type !== 'multipart/form-data') return [...files, ...files.map(compressed)];
  const head = `${start}--x\r\ncontent-disposition: form-data; name="file"; filename="a.csv"\r\n\r\n`;
  const forms = [
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
  return [...forms, ...forms.map((each) => ({ most: compressedForm, ...compressed(each) }))];
}

function plainBodies(expected: Expected): HostileBody[] {
  const inPlace = expected.type === json ? jsonInPlace(expected) : formsInPlace(expected);
  const whole = expected.type === json ? jsonBodies : formBodies;
  const other = expected.type === json ? formBodies : jsonBodies;
  return [
    ...inPlace.map((each): HostileBody => ({ ...each, isInPlace: true })),
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

/** Returns the body in which a hostile value is in all positions of a shape. The positions share the size limit. */
const jsonFilled = (
  name: string,
  { shape, kept }: Pick<Expected, 'shape' | 'kept'>,
  value: (bytes: number) => string | Uint8Array,
): HostileBody =>
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
  });

/** Puts each hostile value in all positions of the shape. */
const jsonInPlace = (expected: Expected): HostileBody[] =>
  Object.entries(jsonValues).map(([name, value]) => jsonFilled(name, expected, value));

/** Puts each hostile list and object in the position of the lists and objects in the shape, if there are any. */
function jsonInstead({ shape, kept }: Expected): HostileBody[] {
  const members = Object.entries(shape as object);
  const isContainer = (value: unknown) => typeof value === 'object' && value !== null;
  if (!members.some(([, value]) => isContainer(value))) return [];
  const flat = Object.fromEntries(members.map(([name, value]) => [name, isContainer(value) ? '' : value]));
  const valid = members.filter(([, value]) => !isContainer(value)).map(([name]) => name);
  return Object.entries(jsonContainers).map(([name, value]) =>
    jsonFilled(`${name} instead of the parts`, { shape: flat, kept: [...kept, ...valid] }, value),
  );
}

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
