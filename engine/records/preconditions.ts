import { errors } from '../errors.ts';
import type { Placeholder } from '../sql/index.ts';
import type { OperationContext, OperationRequest } from './operation.ts';

/** Versions of a record, as {@link OperationContext.projection} selects them. */
type Versions = string;

/** What `If-Match` and `If-None-Match` of a request ask for. */
export interface Preconditions {
  /** The record must have one of these versions; null: any. */
  readonly match: readonly Versions[] | null;
  /** The record must have none of these versions; `*`: it must not exist; null: it may have any. */
  readonly noneMatch: readonly Versions[] | '*' | null;
}

/** A plan whose request may have conditions; undefined: it has none. */
export interface ConditionalPlan {
  readonly conditions: Preconditions | undefined;
}

/** A strong entity tag: the versions, and how the record is shown. */
export const entityTag = ({ projection }: OperationContext, versions: Versions): string =>
  quotedTag(`${versions}-${projection.mark}`);

/** An entity tag as headers have it. */
export const quotedTag = (opaque: string): string => `"${opaque}"`;

/**
 * Reads the conditions of a request about one record (RFC 9110, section 13.1).
 * @throws HttpError 400 unless each is `*` or a list of entity tags
 */
export function parsePreconditions(
  context: OperationContext,
  { headers }: OperationRequest,
): Preconditions | undefined {
  const { 'if-match': ifMatch, 'if-none-match': ifNoneMatch } = headers;
  if (ifMatch === undefined && ifNoneMatch === undefined) return undefined;
  const match = tagsOf('If-Match', ifMatch);
  const noneMatch = tagsOf('If-None-Match', ifNoneMatch);
  const versions = (tags: readonly Tag[]) => tags.flatMap(({ opaque }) => versionsIn(context, opaque));
  return {
    match: match === undefined || match === '*' ? null : versions(match.filter(({ weak }) => !weak)),
    noneMatch: noneMatch === undefined ? null : noneMatch === '*' ? '*' : versions(noneMatch),
  };
}

/** The condition that a record with these versions (undefined: it has no tag) does not meet, in the order of RFC 9110, section 13.2.2. */
export function unmetPrecondition(
  { match, noneMatch }: Preconditions,
  versions: Versions | undefined,
): keyof Preconditions | undefined {
  const isOneOf = (all: readonly Versions[]) => versions !== undefined && all.includes(versions);
  if (match !== null && !isOneOf(match)) return 'match';
  return noneMatch === '*' || (noneMatch !== null && isOneOf(noneMatch)) ? 'noneMatch' : undefined;
}

/** SQL of whether the row that a statement writes meets the conditions. */
export const preconditionsSql = (
  { projection: { currentVersions } }: OperationContext,
  placeholder: Placeholder<ConditionalPlan>,
): string =>
  `coalesce(${currentVersions} = any(${placeholder(match)}::text[]), true) and coalesce(${currentVersions} <> all(${placeholder(noneMatch)}::text[]), true)`;

// A record that is there never meets "If-None-Match: *": no version is in an empty list.
const match = ({ conditions }: ConditionalPlan) =>
  conditions?.noneMatch === '*' ? [] : (conditions?.match ?? null);
const noneMatch = ({ conditions }: ConditionalPlan) =>
  conditions?.noneMatch === '*' ? null : (conditions?.noneMatch ?? null);

interface Tag {
  readonly weak: boolean;
  readonly opaque: string;
}

/** Empty elements of a list are skipped (RFC 9110, section 5.6.1). No two blanks stand side by side: it stays linear. */
const element = /[ \t]*(?:(W\/)?"([\x21\x23-\x7e\x80-\xff]*)"[ \t]*)?(?:,|$)/y;

const malformed = (name: string) => errors.malformedHeader(name, 'must be * or a list of entity tags');

function tagsOf(name: string, header: string | undefined): '*' | readonly Tag[] | undefined {
  if (header === undefined) return undefined;
  if (header.trim() === '*') return '*';
  const tags: Tag[] = [];
  element.lastIndex = 0;
  while (element.lastIndex < header.length) {
    const found = element.exec(header);
    if (found === null) throw malformed(name);
    if (found[2] !== undefined) tags.push({ weak: found[1] !== undefined, opaque: found[2] });
  }
  if (tags.length === 0) throw malformed(name);
  return tags;
}

/** The versions in a tag that this definition of the resource has made; others match no record. */
function versionsIn({ projection }: OperationContext, opaque: string): Versions[] {
  const end = `-${projection.mark}`;
  return opaque.endsWith(end) ? [opaque.slice(0, -end.length)] : [];
}
