import type { Placeholder } from '../sql/index.ts';
import type { OperationContext, RecordInput } from './operation.ts';
import type { CallerScope } from './rows.ts';

/** A record's versions, as selected by {@link OperationContext.projection}. */
type Versions = string;

/** Conditions on a record's versions, derived from entity tags. */
interface Preconditions {
  /** The record must have one of these versions; null if any version is accepted. */
  readonly match: readonly Versions[] | null;
  /**
   * The record must not have any of these versions, or must not exist if this is `*`; null if any version is
   * accepted.
   */
  readonly noneMatch: readonly Versions[] | '*' | null;
}

/** A plan that can have preconditions. */
export interface ConditionalPlan {
  readonly conditions: Preconditions | undefined;
}

/** Returns an entity tag, without quotes. It consists of the record's versions and the projection's mark. */
export const entityTag = ({ projection }: OperationContext, versions: Versions): string =>
  `${versions}-${projection.mark}`;

/** Extracts the versions from the entity tags in a request's conditions. */
export function preconditionsOf(
  context: OperationContext,
  { conditions }: Pick<RecordInput, 'conditions'>,
): Preconditions | undefined {
  if (conditions === undefined) return undefined;
  const { match, noneMatch } = conditions;
  const versions = (tags: readonly string[]) => tags.flatMap((tag) => versionsIn(context, tag));
  return {
    match: match === undefined || match === '*' ? null : versions(match),
    noneMatch: noneMatch === undefined ? null : noneMatch === '*' ? '*' : versions(noneMatch),
  };
}

/**
 * Returns the first unmet condition, in the order specified by RFC 9110, section 13.2.2.
 * @param versions undefined if the response has no entity tag
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
  { projection }: OperationContext,
  placeholder: Placeholder<ConditionalPlan & CallerScope>,
): string => {
  const currentVersions = projection.currentVersions(placeholder);
  return `coalesce(${currentVersions} = any(${placeholder(match)}::text[]), true) and coalesce(${currentVersions} <> all(${placeholder(noneMatch)}::text[]), true)`;
};

// An existing record never meets "If-None-Match: *", so its version is compared with an empty list.
const match = ({ conditions }: ConditionalPlan) =>
  conditions?.noneMatch === '*' ? [] : (conditions?.match ?? null);
const noneMatch = ({ conditions }: ConditionalPlan) =>
  conditions?.noneMatch === '*' ? null : (conditions?.noneMatch ?? null);

/** Extracts the versions from a tag issued for the resource's current definition. Other tags never match. */
function versionsIn({ projection }: OperationContext, tag: string): Versions[] {
  const end = `-${projection.mark}`;
  return tag.endsWith(end) ? [tag.slice(0, -end.length)] : [];
}
