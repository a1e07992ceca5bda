import { errors } from '../errors.ts';
import type { Placeholder } from '../sql/index.ts';
import type { OperationContext, OperationRequest } from './operation.ts';

/** A record's versions, as selected by {@link OperationContext.projection}. */
type Versions = string;

/** The conditions in `If-Match` and `If-None-Match`. */
export interface Preconditions {
  /** The record must have one of these versions; null if any version is accepted. */
  readonly match: readonly Versions[] | null;
  /**
   * The record must not have any of these versions, or must not exist if this is `*`; null if any version is
   * accepted.
   */
  readonly noneMatch: readonly Versions[] | '*' | null;
}

/** A plan whose request can contain preconditions. */
export interface ConditionalPlan {
  readonly conditions: Preconditions | undefined;
}

/** Returns a strong entity tag, which consists of the record's versions and the projection's mark. */
export const entityTag = ({ projection }: OperationContext, versions: Versions): string =>
  quotedTag(`${versions}-${projection.mark}`);

/** Quotes an entity tag for headers. */
export const quotedTag = (opaque: string): string => `"${opaque}"`;

/**
 * Parses the preconditions of a request for one record (RFC 9110, section 13.1).
 * @throws HttpError 400 unless each header is `*` or a list of entity tags
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

/**
 * Returns the first unmet condition in the order of RFC 9110, section 13.2.2. @param versions undefined if
 * the response has no entity tag
 */
export function unmetPrecondition(
  { match, noneMatch }: Preconditions,
  versions: Versions | undefined,
): keyof Preconditions | undefined {
  const isOneOf = (list: readonly Versions[]) => versions !== undefined && list.includes(versions);
  if (match !== null && !isOneOf(match)) return 'match';
  return noneMatch === '*' || (noneMatch !== null && isOneOf(noneMatch)) ? 'noneMatch' : undefined;
}

/** Returns SQL that checks whether the row to write meets the conditions. */
export const preconditionsSql = (
  { projection: { currentVersions } }: OperationContext,
  placeholder: Placeholder<ConditionalPlan>,
): string =>
  `coalesce(${currentVersions} = any(${placeholder(match)}::text[]), true) and coalesce(${currentVersions} <> all(${placeholder(noneMatch)}::text[]), true)`;

// An existing record never meets "If-None-Match: *", so its version is compared with an empty list.
const match = ({ conditions }: ConditionalPlan) =>
  conditions?.noneMatch === '*' ? [] : (conditions?.match ?? null);
const noneMatch = ({ conditions }: ConditionalPlan) =>
  conditions?.noneMatch === '*' ? null : (conditions?.noneMatch ?? null);

interface Tag {
  readonly weak: boolean;
  readonly opaque: string;
}

/**
 * Matches an element of a list of entity tags. Empty elements are skipped (RFC 9110, section 5.6.1). No two
 * adjacent parts of the pattern match blanks, so matching takes linear time.
 */
const element = /[ \t]*(?:(W\/)?"([\x21\x23-\x7e\x80-\xff]*)"[ \t]*)?(?:,|$)/y;

const malformed = (name: string) => errors.malformedHeader(name, 'must be * or a list of entity tags');

function tagsOf(name: string, header: string | undefined): '*' | readonly Tag[] | undefined {
  if (header === undefined) return undefined;
  if (header.trim() === '*') return '*';
  const tags: Tag[] = [];
  element.lastIndex = 0;
  while (element.lastIndex < header.length) {
    const result = element.exec(header);
    if (result === null) throw malformed(name);
    if (result[2] !== undefined) tags.push({ weak: result[1] !== undefined, opaque: result[2] });
  }
  if (tags.length === 0) throw malformed(name);
  return tags;
}

/**
 * Returns the versions of a tag issued for the current definition of the resource. Other tags never match.
 */
function versionsIn({ projection }: OperationContext, opaque: string): Versions[] {
  const end = `-${projection.mark}`;
  return opaque.endsWith(end) ? [opaque.slice(0, -end.length)] : [];
}
