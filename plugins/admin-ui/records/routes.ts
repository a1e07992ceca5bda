import type { FastifyContextConfig, FastifyReply, FastifyRequest } from 'fastify';
import type { ResourceView } from '../../../engine/compile/index.ts';
import type { Database } from '../../../engine/database/index.ts';
import type { VisiblePerson } from '../../access/identity/index.ts';
import {
  type AnyPage,
  type CurrentMember,
  type Form,
  field,
  type Language,
  type Link,
  returnQuery,
  type Text,
  type ViewData,
} from '../shell/index.ts';
import type { Calls } from './calls.ts';
import type { People } from './people.ts';
import type { References } from './references.ts';
import type { RecordsText } from './texts/index.ts';
import { resourceNoun, type Titles } from './values.ts';

/** A page of records. The compiler rejects words that are not texts of the catalogue, labels or values. */
type RecordsPage = AnyPage<Text> & { readonly title: string };

/** A member's request for a page of records. */
export interface DataRequest {
  readonly request: FastifyRequest;
  readonly reply: FastifyReply;
  readonly database: Database;
  readonly member: CurrentMember;
  /** Whether an administrator views the records as a profile, so that nothing can be changed. */
  readonly isViewingAs: boolean;
  /** Whether members can write notes. */
  readonly hasNotes: boolean;
  readonly resource: ResourceView;
  /** The list's URL. */
  readonly path: string;
  readonly calls: Calls;
  readonly titles: Titles;
  /** The page's language, and the function that finds its texts. */
  readonly language: Language;
  readonly t: RecordsText;
  readonly references: References;
  /** Finds users by ID. Email addresses require the grant to list members. */
  readonly findPeople: (ids: readonly string[]) => Promise<People>;
  /** Lists the organization's members. Email addresses require the grant to list members. */
  readonly listMembers: () => Promise<readonly VisiblePerson[]>;
  /** Sends a page with the resource's navigation. */
  readonly sendPage: (page: RecordsPage, more?: ViewData) => Promise<string>;
}

/** Handles a request for a page of records. */
export type DataHandler = (context: DataRequest) => Promise<unknown>;

/** Adds routes for pages of records. `path` is relative to the list's URL. */
export interface DataRoutes {
  readonly get: (path: string, handle: DataHandler, config?: FastifyContextConfig) => void;
  /** Registers a form, protected by a token. */
  readonly post: (path: string, handle: DataHandler, options?: { readonly bodyLimit?: number }) => void;
}

/** Returns the URL of the list from which the user started an action. @param page another page instead of the list */
export function returnUrl({ path }: DataRequest, form: Form, page = path): string {
  const at = returnQuery(field(form, 'at'));
  return at === '' ? page : `${page}?${at}`;
}

/** Returns the link to the page that confirms a deletion, or undefined if it is not permitted. */
export const deletionOf = (
  { calls, resource, path, language, t }: DataRequest,
  id: string,
): Link | undefined =>
  calls.allows(resource, 'delete')
    ? { label: t('delete', { name: resourceNoun(resource, language) }), href: `${path}/${id}/delete` }
    : undefined;

/** Returns whether a member can see the records in a resource's trash. */
export const canSeeTrash = ({ resource, calls }: Pick<DataRequest, 'resource' | 'calls'>): boolean =>
  resource.definition.trash !== undefined &&
  calls.allows(resource, 'list') &&
  calls.allows(resource, 'restore');
