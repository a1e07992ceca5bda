import { tablesOf } from '../../../engine/tables/index.ts';
import { listViews, type MemberList, type SavedView } from '../saved-views/index.ts';
import { isAdministrator, type ListView } from '../shell/index.ts';
import { isSameView, viewParameters } from './list-parameters.ts';
import type { DataRequest } from './routes.ts';
import { resourceWords } from './values.ts';

/** The value of `?view=` for the list without a saved view, if the member's list opens with a view. */
const noView = 'all';

/** Returns the list whose views the member uses. */
export const memberList = ({ member, resource }: Pick<DataRequest, 'member' | 'resource'>): MemberList => ({
  organization: member.membership.organization,
  user: member.person.session.user.id,
  resource: resource.name,
});

/** Returns whether a member can change or delete a view. Administrators can also change shared views of others. */
export const canChange = ({ member, isViewingAs }: DataRequest, { isOwn }: SavedView): boolean =>
  !isViewingAs && (isOwn || isAdministrator(member.membership));

/** Returns the URL of a list with a saved view, without the parameters that the member's list does not accept. */
export function viewUrl({ path, resource }: Pick<DataRequest, 'path' | 'resource'>, view: SavedView): string {
  const { parameters } = viewParameters(resource, new URLSearchParams(view.query));
  return `${path}?${new URLSearchParams([['view', view.id], ...parameters])}`;
}

/** The saved views of a list, and the URL of the list without filters. */
interface ListTabs {
  readonly views: NonNullable<ListView['views']>;
  readonly all: string;
  readonly hint: string | undefined;
}

/** Returns the views that a member can use, for {@link viewTabs}. */
export const usableViews = (context: DataRequest): Promise<SavedView[]> =>
  listViews(tablesOf(context.database), memberList(context));

/** Returns a list's tabs, and the links that save and change views. */
export function viewTabs(
  context: DataRequest,
  views: readonly SavedView[],
  parameters: URLSearchParams,
): ListTabs {
  const { path, resource, isViewingAs, language, t } = context;
  const current = views.find(({ id }) => id === parameters.get('view'));
  const all = views.some(({ isDefault }) => isDefault) ? `${path}?view=${noView}` : path;
  const { parameters: shown } = viewParameters(resource, parameters);
  const stored = current && viewParameters(resource, new URLSearchParams(current.query));
  const isChanged = !isSameView(shown, stored?.parameters ?? new URLSearchParams());
  const ignored = stored?.ignored ?? [];
  return {
    all,
    hint: ignored.length === 0 ? undefined : t('ignoredFields', { fields: ignored.join(', ') }),
    views: {
      tabs:
        views.length === 0
          ? []
          : [
              {
                label: t('allRecords', { records: resourceWords(resource, language) }),
                href: all,
                current: current === undefined,
              },
              ...views.map((view) => ({
                label: view.name,
                href: viewUrl(context, view),
                current: view === current,
                isShared: view.isShared,
              })),
            ],
      links: [
        ...(isChanged && !isViewingAs
          ? [
              {
                label: current === undefined ? t('saveView') : t('saveNewView'),
                icon: 'bookmark' as const,
                href: `${path}/views/new?${shown}`,
              },
            ]
          : []),
        ...(current === undefined || isViewingAs
          ? []
          : [
              {
                label: t('editView'),
                icon: 'pencil' as const,
                href: `${path}/views/${current.id}/edit`,
              },
            ]),
      ],
      save:
        current !== undefined && isChanged && canChange(context, current)
          ? { action: `${path}/views/${current.id}/query`, value: String(shown) }
          : undefined,
    },
  };
}
