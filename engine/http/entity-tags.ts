import type { IncomingHttpHeaders } from 'node:http';
import { errors } from '../errors.ts';
import type { TagConditions } from '../records/index.ts';

/** Quotes an entity tag for headers. */
export const quotedTag = (tag: string): string => `"${tag}"`;

/**
 * Parses `If-Match` and `If-None-Match` (RFC 9110, section 13.1). Weak tags in `If-Match` never match.
 * @throws HttpError 400 unless each header is `*` or a list of entity tags
 */
export function tagConditions(headers: IncomingHttpHeaders): TagConditions | undefined {
  const { 'if-match': match, 'if-none-match': noneMatch } = headers;
  if (match === undefined && noneMatch === undefined) return undefined;
  return { match: tagsOf('If-Match', match), noneMatch: tagsOf('If-None-Match', noneMatch, true) };
}

/**
 * Matches one element of an entity tag list. Empty elements are skipped (RFC 9110, section 5.6.1). No two
 * adjacent parts of the pattern can match blanks, so matching takes linear time.
 */
const element = /[ \t]*(?:(W\/)?"([\x21\x23-\x7e\x80-\xff]*)"[ \t]*)?(?:,|$)/y;

const malformed = (name: string) => errors.malformedHeader(name, 'must be * or a list of entity tags');

/** Returns the entity tags in a header, without quotes. @param includesWeak whether to include weak tags */
function tagsOf(name: string, header: string | undefined, includesWeak = false): TagConditions['match'] {
  if (header === undefined) return undefined;
  if (header.trim() === '*') return '*';
  const tags: string[] = [];
  let isEmpty = true;
  element.lastIndex = 0;
  while (element.lastIndex < header.length) {
    const result = element.exec(header);
    if (result === null) throw malformed(name);
    const [, weak, tag] = result;
    if (tag === undefined) continue;
    isEmpty = false;
    if (weak === undefined || includesWeak) tags.push(tag);
  }
  if (isEmpty) throw malformed(name);
  return tags;
}
